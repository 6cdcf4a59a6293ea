"""Consumer: claims executions of one queue in batches, shortly before they are due, and hands each batch out."""

import logging
import random
import time
from collections.abc import Iterable, Sequence
from functools import partial

from dramatiq.broker import Consumer, MessageProxy
from dramatiq.message import Message

from app.catalog.retry_policy import RetryPolicy
from app.kernel.errors import UnavailableError
from app.queue.claiming import shards
from app.queue.claiming.release import DUE_NOW_MS
from app.queue.executions.execution_model import DeliveryError
from app.queue.executions.verdict import Tried, decide
from brokers.attempt import Attempt, Stage
from brokers.claimer import Claimer
from brokers.discovery import FIRST_IDLE_WAIT_SECONDS, Discovery
from brokers.sharing.partitions import KnownPartitions
from brokers.worker_process import WorkerProcess

log = logging.getLogger(__name__)

AWAY_WAIT_SECONDS = 0.5
PAUSED_WAIT_SECONDS = 0.25  # between two looks at whether its queue goes on; te-flow asks the database
DELIVER = "deliver"  # the one actor: queues differ only in which workers serve them
MOST_PER_MESSAGE = 16  # prepared one after the other, while other threads prepare more and the loop sends


class ClaimConsumer(Consumer):
    """The consumer of one queue, over which Dramatiq's `Worker` iterates.

    It belongs to one consumer thread; `ack`, `nack` and `requeue` are called from others and keep nothing here.
    """

    def __init__(self, process: WorkerProcess, queue: str, timeout_ms: int) -> None:
        self._process = process
        self._queue = queue
        self._timeout = timeout_ms / 1000
        self._inbox = process.inboxes.open(queue)
        self._paused_until = 0.0
        self._is_look_late = False
        # The consumer before this one may have died between its claim and the answer.
        self._uncertain = True
        self._is_away = False
        settings = process.settings
        ahead = settings.claim_ahead_ms / 1000
        # Slots that an idle queue reserves for its claim are missing for a busy one meanwhile, so start small.
        self._partitions = KnownPartitions(settings.shards, ahead=ahead, appetite=max(1, settings.capacity // 8))
        longest_wait = settings.poll_interval_ms / 1000
        self._discovery = Discovery(process.database, queue, self._partitions, longest_wait=longest_wait, ahead=ahead)
        self._claimer = Claimer(process, queue, self._partitions, process.admission(), self._discovery)
        self._survey_at = 0.0
        self._shards = shards.ShardCount(settings.shards, partial(shards.claimable_beyond, process.database, queue))

    def __next__(self) -> MessageProxy | None:
        deadline, claimer = time.monotonic() + self._timeout, self._claimer
        while not self._process.draining.is_set():
            if claimer.claimed:
                batch, claimer.claimed = claimer.claimed[:MOST_PER_MESSAGE], claimer.claimed[MOST_PER_MESSAGE:]
                return MessageProxy(Message(self._queue, DELIVER, args=(batch,), kwargs={}, options={}))
            now = time.monotonic()
            if now >= deadline:
                return None
            self._read_inbox(now)
            discovery = self._discovery
            known_at = min(self._partitions.next_at(), discovery.poll_at, discovery.scan_at)
            poll_at = now if self._inbox.has_room else known_at
            poll_at = max(poll_at, self._paused_until)
            if now >= poll_at:
                self._poll(now)
            else:
                # Sleep until the next instant at which there is something to do without being woken.
                self._inbox.arrived.wait(min(deadline, poll_at) - now)
        self.close()
        # Dramatiq asks again until its workers have stopped; do not let it spin.
        time.sleep(min(0.05, self._timeout))
        return None

    def ack(self, message: MessageProxy) -> None:
        """Nothing to do for what an actor took up: the completion of its delivery concludes the attempt."""
        attempts: Sequence[Attempt] = message.args[0]
        for attempt in attempts:
            if attempt.stage is Stage.CLAIMED:
                _conclude_without_verdict(attempt, "the actor returned without starting the delivery")

    def nack(self, message: MessageProxy) -> None:
        """Conclude as failed whatever has no verdict: an actor that raised, a skipped message, an unknown actor."""
        for attempt in message.args[0]:
            _conclude_without_verdict(attempt, "the actor did not start the delivery")

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        """Hand messages back that no actor has seen."""
        for message in messages:
            for attempt in message.args[0]:
                attempt.release(put_off_ms=DUE_NOW_MS)

    def close(self) -> None:
        """Hand back what was claimed and not handed out; may be called twice."""
        while self._claimer.claimed:
            self._claimer.claimed.pop().release(put_off_ms=DUE_NOW_MS)

    def after_lost_answer(self) -> None:
        """Pause, and before the next claim hand back what a claim whose answer was lost may have taken."""
        self._uncertain = True
        self._paused_until = time.monotonic() + AWAY_WAIT_SECONDS * random.uniform(0.5, 1.5)

    def _poll(self, now: float) -> None:
        """Find partitions when that is due, and claim from those that have something due."""
        process = self._process
        if not process.may_claim():
            self._paused_until = now + FIRST_IDLE_WAIT_SECONDS
            return
        try:
            if self._uncertain or now >= self._survey_at:
                self._take_stock()
            if self._claimer.is_paused():
                self._paused_until = now + PAUSED_WAIT_SECONDS
                return
            if now >= min(self._discovery.poll_at, self._discovery.scan_at):
                # What is known of need not wait for it, but for one claim only.
                self._is_look_late = not self._is_look_late and self._partitions.next_at() <= now
                if not self._is_look_late:
                    revision = self._discovery.step()
                    if revision > process.rules.revision:
                        self._claimer.learn(revision)
            self._inbox.has_room = False  # a refusal from here on is followed by a wake-up
            if self._claimer.claim():
                self._is_away = False
        except UnavailableError as error:
            if not self._is_away:
                log.warning("cannot claim from %s, trying again: %s", self._queue, error.explained)
            self._is_away = True
            self.after_lost_answer()

    def _take_stock(self) -> None:
        """Look for strays after an answer was lost, and now and then for shards that the setting does not know."""
        if self._uncertain:
            self._claimer.hand_back_strays()
            self._uncertain = False
        if time.monotonic() >= self._survey_at:
            self._partitions.extend(self._shards.survey())
            self._survey_at = time.monotonic() + shards.SURVEY_SECONDS

    def _read_inbox(self, now: float) -> None:
        inbox = self._inbox
        inbox.arrived.clear()
        while inbox.ended:
            self._claimer.freed(inbox.ended.popleft())
        while inbox.due:
            partitions, since = inbox.due.popleft()
            for partition in partitions:
                self._partitions.noticed(partition, now, since)
            if not partitions:
                self._discovery.poll_soon(now)


def _conclude_without_verdict(attempt: Attempt, reason: str) -> None:
    """Conclude as failed: without a verdict an attempt is never a success."""
    error = DeliveryError("NO_VERDICT", reason)
    claim = attempt.claim
    tried = Tried(claim.execution_id, claim.attempt, claim.max_attempts)
    attempt.conclude(decide(error, None, tried, RetryPolicy(), spread=0.0))
