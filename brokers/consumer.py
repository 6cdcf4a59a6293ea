"""Consumer: claims executions of one queue in batches, shortly before they are due, and hands each batch out."""

import logging
import random
import time
from collections.abc import Iterable

from dramatiq.broker import Consumer, MessageProxy
from dramatiq.message import Message

from app.catalog.retry_policy import RetryPolicy
from app.kernel.errors import UnavailableError
from app.queue.claiming.release import DUE_NOW_MS
from app.queue.claiming.shards import SURVEY_SECONDS, ShardCount
from app.queue.executions.execution_model import DeliveryError
from app.queue.executions.verdict import Tried, decide
from brokers.attempt import Attempt, Stage
from brokers.claimer import Claimer
from brokers.discovery import TIMES, Discovery, DiscoveryTimes
from brokers.finalizer import HIGH_WATER
from brokers.sharing.partitions import KnownPartitions
from brokers.worker_process import WorkerProcess

log = logging.getLogger(__name__)

BLOCKED_WAIT_SECONDS = 0.01  # between two checks whether results are written and the lease is renewed
AWAY_WAIT_SECONDS = 0.5
PAUSED_WAIT_SECONDS = 0.25  # between two checks whether its queue was resumed
APART_SECONDS = 0.02  # between the first statements of two consumers, which would need a connection each
DELIVER = "deliver"  # the one actor: queues differ only in their workers
MAX_PER_MESSAGE = 64  # prepared in sequence; each message wakes a thread, which wakes the loop
MAX_PER_MESSAGE_OF_RETRIES = 16  # other threads prepare more meanwhile: some transports read the earlier attempts


class ClaimedMessage(MessageProxy):
    """A message with attempts; rejected if its actor raises. Dramatiq acknowledges it otherwise."""

    def stuff_exception(self, exception: BaseException) -> None:
        self.fail()


class ClaimConsumer(Consumer):
    """The consumer of one queue, over which Dramatiq's `Worker` iterates.

    It belongs to one consumer thread; `ack`, `nack` and `requeue` are called by other threads and use no state of it.
    """

    def __init__(
        self, process: WorkerProcess, queue: str, timeout_ms: int, discovery_times: DiscoveryTimes = TIMES
    ) -> None:
        self._process = process
        self._queue = queue
        self._timeout = timeout_ms / 1000
        self._inbox = process.inboxes.open(queue)
        self._paused_until = time.monotonic() + APART_SECONDS * (process.inboxes.count - 1)
        self._is_poll_late = False
        self._check_at = 0.0  # at once: the previous consumer may have died between its claim and the answer
        self._shards_at = 0.0
        self._is_away = False
        settings = process.settings
        ahead = settings.claim_ahead_ms / 1000
        # Start small: a busy queue cannot use the slots that an idle queue reserves for its claim.
        self._partitions = KnownPartitions(settings.shards, ahead=ahead, batch=max(1, settings.capacity // 8))
        longest_wait = settings.poll_interval_ms / 1000
        self._discovery = Discovery(
            process.database,
            queue,
            self._partitions,
            longest_wait=longest_wait,
            ahead=ahead,
            times=discovery_times,
            idle_check=process.idle_check,
        )
        self._claimer = Claimer(process, queue, self._partitions, self._discovery)
        self._shards = ShardCount(settings.shards, process.database, queue)

    def __next__(self) -> MessageProxy | None:
        deadline, claimer = time.monotonic() + self._timeout, self._claimer
        while not self._process.draining.is_set():
            if claimed := claimer.claimed:
                numbers = {attempt.claim.attempt for attempt in claimed[:MAX_PER_MESSAGE]}
                size = MAX_PER_MESSAGE if numbers == {1} else MAX_PER_MESSAGE_OF_RETRIES
                batch, claimer.claimed = claimed[:size], claimed[size:]
                return ClaimedMessage(Message(self._queue, DELIVER, args=(batch,), kwargs={}, options={}))
            now = time.monotonic()
            if now >= deadline:
                return None
            self._read_inbox(now)
            partitions, discovery = self._partitions, self._discovery
            known_at = min(partitions.event_at, partitions.pick_at, discovery.poll_at, discovery.scan_at)
            work_at = max(now if self._inbox.has_room else known_at, self._paused_until)
            if now >= work_at:
                self._work(now)
            else:
                self._inbox.arrived.wait(min(deadline, work_at) - now)
        self.close()
        # Dramatiq asks again until its workers have stopped; do not let it spin.
        time.sleep(min(0.05, self._timeout))
        return None

    def ack(self, message: MessageProxy) -> None:
        """Fail the attempts that the actor left alone; the rest ends with its deliveries."""
        for attempt in message.args[0]:
            if attempt.stage is Stage.CLAIMED:
                _fail_without_verdict(attempt, "the actor returned without starting the delivery")

    def nack(self, message: MessageProxy) -> None:
        """Fail all attempts without a verdict: the actor raised, or is unknown."""
        for attempt in message.args[0]:
            _fail_without_verdict(attempt, "the actor did not start the delivery")

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        """Release the attempts of messages that no actor has received."""
        for message in messages:
            for attempt in message.args[0]:
                attempt.release(defer_ms=DUE_NOW_MS)

    def close(self) -> None:
        """Release the claims that were not handed out; may be called twice."""
        while self._claimer.claimed:
            self._claimer.claimed.pop().release(defer_ms=DUE_NOW_MS)

    def after_lost_answer(self) -> None:
        """Pause, and before the next claim release the executions that the lost claim may have taken.

        The claim may be committed later; the next checks for orphans find it then.
        """
        self._check_at = 0.0
        self._paused_until = time.monotonic() + AWAY_WAIT_SECONDS * random.uniform(0.5, 1.5)

    def _work(self, now: float) -> None:
        """Find due partitions, and claim from them."""
        process, discovery = self._process, self._discovery
        # The claim itself checks the lease in the database.
        if process.finalizer.completions.count >= HIGH_WATER or now >= process.lease.valid_until:
            self._paused_until = now + BLOCKED_WAIT_SECONDS
            return
        try:
            if now >= self._check_at:
                self._check(now)
            revision = process.rules.revision  # read first: newer rules may pause the queue
            if self._queue in process.rules.paused_queues:
                process.shares.want(self._queue, ())
                self._paused_until = now + PAUSED_WAIT_SECONDS
                return
            if now >= min(discovery.poll_at, discovery.scan_at):
                # Known partitions go first, but for one claim only.
                is_due = self._partitions.event_at <= now or self._partitions.pick_at <= now
                self._is_poll_late = not self._is_poll_late and is_due
                if not self._is_poll_late:
                    if discovery.poll_at > now:
                        discovery.scan(now)
                    elif not discovery.skips_poll(now):
                        discovery.poll(now)
            self._inbox.has_room = False  # a refusal from here on is followed by a wake-up
            self._is_away &= not self._claimer.claim(revision)
        except UnavailableError as error:
            if not self._is_away:
                log.warning("cannot claim from queue %s: %s; retrying", self._queue, error.explained)
            self._is_away = True
            self.after_lost_answer()

    def _check(self, now: float) -> None:
        """Release orphans, and rarely find shards beyond the setting."""
        self._check_at = now + self._process.settings.orphan_check_seconds
        self._claimer.release_orphans()
        if now >= self._shards_at:
            self._shards_at = now + SURVEY_SECONDS
            self._partitions.extend(self._shards.survey())

    def _read_inbox(self, now: float) -> None:
        inbox = self._inbox
        inbox.arrived.clear()
        while inbox.ended:
            ended = inbox.ended.popleft()
            for rule in self._claimer.rules:
                rule.freed(ended)
        while inbox.due:
            partitions, since = inbox.due.popleft()
            for partition in partitions:
                self._partitions.noticed(partition, now, since)
            if not partitions:
                self._discovery.poll_soon(now, since)
        while inbox.wakeups:
            self._discovery.receive(inbox.wakeups.popleft(), now)


def _fail_without_verdict(attempt: Attempt, reason: str) -> None:
    error = DeliveryError("NO_VERDICT", reason)
    claim = attempt.claim
    tried = Tried(claim.execution_id, claim.attempt, claim.max_attempts)
    attempt.complete(decide(error, None, tried, RetryPolicy(), spread=0.0))
