"""Consumer: claims executions of one queue in batches, shortly before they are due, and hands each batch out."""

import logging
import random
import threading
import time
from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter

from dramatiq.broker import Consumer, MessageProxy
from dramatiq.message import Message

from app.catalog.retry_policy import RetryPolicy
from app.errors import UnavailableError
from app.executions.claiming import shards
from app.executions.claiming.claim import claim_batch, claims_of
from app.executions.database_clock import DatabaseClock
from app.executions.model import DeliveryError
from app.executions.verdict import Tried, decide
from brokers.attempt import Attempt, Stage
from brokers.turns import FIRST_IDLE_WAIT_SECONDS, Turn, Turns
from brokers.worker_process import WorkerProcess

log = logging.getLogger(__name__)

AWAY_WAIT_SECONDS = 0.5
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
        self._wake = threading.Event()
        self._claimed: list[Attempt] = []  # not handed out yet
        self._paused_until = 0.0
        self._hinted = False
        # The consumer before this one may have died between its claim and the answer.
        self._uncertain = True
        self._is_away = False
        settings = process.settings
        # Slots that an idle queue reserves for its poll are missing for a busy one meanwhile, so start small.
        appetite = max(1, settings.capacity // 8)
        self._turns = Turns(settings.shards, appetite=appetite, longest_wait=settings.poll_interval_ms / 1000)
        self._survey_at = 0.0
        self._clock = DatabaseClock(learns=not process.database.is_cockroach)
        self._shards = shards.ShardCount(settings.shards, partial(shards.claimable_beyond, process.database, queue))
        process.on_wake(queue, self._woken)
        process.in_flight.on_room(queue, self._wake.set)

    def __next__(self) -> MessageProxy | None:
        deadline = time.monotonic() + self._timeout
        while not self._process.draining.is_set():
            if self._claimed:
                batch, self._claimed = self._claimed[:MOST_PER_MESSAGE], self._claimed[MOST_PER_MESSAGE:]
                return MessageProxy(Message(self._queue, DELIVER, args=(batch,), kwargs={}, options={}))
            now = time.monotonic()
            if now >= deadline:
                return None
            self._wake.clear()
            if self._hinted:
                self._hinted = False
                self._turns.look_now(now)
            turn = self._turns.next()
            poll_at = max(turn.at, self._paused_until)
            if now >= poll_at:
                if self._poll(turn):
                    continue
                poll_at = deadline  # `in_flight` wakes us when there is room
            # Sleep until the next instant at which there is something to do without being woken.
            self._wake.wait(max(0.0, min(deadline, poll_at) - time.monotonic()))
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
                attempt.release()

    def close(self) -> None:
        """Hand back what was claimed and not handed out; may be called twice."""
        while self._claimed:
            self._claimed.pop().release()

    def after_lost_answer(self) -> None:
        """Pause, and before the next claim hand back what a claim whose answer was lost may have taken."""
        self._uncertain = True
        self._paused_until = time.monotonic() + AWAY_WAIT_SECONDS * random.uniform(0.5, 1.5)

    def _poll(self, turn: Turn) -> bool:
        """Take a turn, or put it off; False when there is no room for more claims."""
        process, asked_at = self._process, time.monotonic()
        if not process.may_claim():
            self._paused_until = time.monotonic() + FIRST_IDLE_WAIT_SECONDS
            return True
        reserved = process.in_flight.reserve(turn.appetite)
        if not reserved:
            return False
        attempts: list[Attempt] = []
        try:
            if self._uncertain or time.monotonic() >= self._survey_at:
                self._take_stock()
            found = self._look() if turn.shard is None else turn
            attempts = [] if found is None else self._claim(found, reserved)
        except UnavailableError as error:
            if not self._is_away:
                log.warning("cannot claim from %s, trying again: %s", self._queue, error.explained)
            self._is_away = True
            self.after_lost_answer()
        finally:
            process.in_flight.settle(reserved, [attempt.claim.key for attempt in attempts], asked_at)
        self._claimed = attempts
        return True

    def _take_stock(self) -> None:
        """Look for strays after an answer was lost, and now and then for shards that the setting does not know."""
        if self._uncertain:
            self._hand_back_strays()
        if time.monotonic() >= self._survey_at:
            self._turns.extend(self._shards.survey())
            self._survey_at = time.monotonic() + shards.SURVEY_SECONDS

    def _look(self) -> Turn | None:
        """Learn when each shard has something due; returns the turn of one that has it now."""
        found = shards.next_due(self._process.database, queue=self._queue, since=self._turns.since())
        now = time.monotonic()
        self._turns.looked(now, found, ahead=self._process.settings.claim_ahead_ms / 1000)
        turn = self._turns.next()
        return turn if turn.shard is not None and turn.at <= now else None

    def _claim(self, turn: Turn, limit: int) -> list[Attempt]:
        process, settings, shard = self._process, self._process.settings, turn.shard or 0
        claimed = claim_batch(
            process.database,
            queue=self._queue,
            shard=shard,
            worker_id=process.worker_id,
            limit=limit,
            ahead_ms=settings.claim_ahead_ms,
            since=turn.since,
            clock=self._clock,
        )
        process.on_revision(claimed.catalog_revision)
        count = len(claimed.claims)
        process.counters.add("claimed", count)
        self._is_away = False
        next_due = claimed.next_due_in_seconds
        due_in = None if next_due is None else next_due - settings.claim_ahead_ms / 1000
        now, seen = time.monotonic(), claimed.seen_up_to
        self._turns.claimed(shard, now, count=count, limit=limit, due_in=due_in, seen_up_to=seen)
        attempts = [Attempt(claim, process.finalizer, process.in_flight) for claim in claimed.claims]
        return sorted(attempts, key=attrgetter("due_at"))

    def _hand_back_strays(self) -> None:
        """Hand back the executions of a claim whose answer was lost.

        Only this thread claims from this queue, so whatever is neither in flight nor being written is a stray.
        """
        process = self._process
        known = process.in_flight.claims() | process.finalizer.pending()
        claimed = claims_of(process.database, process.worker_id, self._queue)
        strays = claimed - known - process.in_flight.claims() - process.finalizer.pending()
        for stray in strays:
            process.finalizer.submit_release(stray)
        process.counters.add("strays", len(strays))
        self._uncertain = False

    def _woken(self) -> None:
        self._hinted = True
        self._wake.set()


def _conclude_without_verdict(attempt: Attempt, reason: str) -> None:
    """Conclude as failed: without a verdict an attempt is never a success."""
    error = DeliveryError("NO_VERDICT", reason)
    claim = attempt.claim
    tried = Tried(claim.execution_id, claim.attempt, claim.max_attempts)
    attempt.conclude(decide(error, None, tried, RetryPolicy(), spread=0.0))
