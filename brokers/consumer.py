"""Consumer: claims executions of one queue in batches, shortly before they are due, and hands each batch out."""

import logging
import random
import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter

from dramatiq.broker import Consumer, MessageProxy
from dramatiq.message import Message

from app.catalog.retry_policy import RetryPolicy
from app.errors import UnavailableError
from app.executions.claiming import shards
from app.executions.claiming.claim import claim, claims_of
from app.executions.claiming.gated import claim_gated
from app.executions.claiming.lane import Lane, Wanted
from app.executions.claiming.release import DUE_NOW_MS, Release
from app.executions.database_clock import DatabaseClock
from app.executions.model import DeliveryError
from app.executions.verdict import Tried, decide
from app.flow.gates import Gate
from app.flow.gates import add as add_gates
from app.metrics import series
from brokers.attempt import Attempt, Stage
from brokers.discovery import FIRST_IDLE_WAIT_SECONDS, Discovery
from brokers.gating import Gating
from brokers.sharing.lanes import Lanes
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
        # From other threads: lanes with something due, and since when; without lanes a look is asked for.
        self._hints = deque[tuple[Sequence[Lane], datetime | None]]()
        self._has_room = False
        self._is_look_late = False
        # The consumer before this one may have died between its claim and the answer.
        self._uncertain = True
        self._is_away = False
        settings = process.settings
        ahead = settings.claim_ahead_ms / 1000
        # Slots that an idle queue reserves for its claim are missing for a busy one meanwhile, so start small.
        self._lanes = Lanes(settings.shards, ahead=ahead, appetite=max(1, settings.capacity // 8))
        self._gating = Gating(process.rules, self._lanes, settings.capacity)
        longest_wait = settings.poll_interval_ms / 1000
        self._discovery = Discovery(process.database, queue, self._lanes, longest_wait=longest_wait, ahead=ahead)
        self._survey_at = 0.0
        self._clock = DatabaseClock(learns=not process.database.is_cockroach)
        self._shards = shards.ShardCount(settings.shards, partial(shards.claimable_beyond, process.database, queue))
        # Of its queue no other thread counts.
        self._seconds = process.values.cells(series.CLAIM_SECONDS)[queue,]
        self._rows = process.values.cells(series.CLAIM_ROWS)[queue,]
        process.on_wake(queue, self._hinted)
        process.shares.on_room(queue, self._told_of_room)
        process.on_freed(queue, self._told_of_ends)

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
            while self._hints:
                lanes, since = self._hints.popleft()
                for lane in lanes:
                    self._lanes.noticed(lane, now, since)
                if not lanes:
                    self._discovery.look_soon(now)
            poll_at = now if self._has_room else min(self._lanes.next_at(), self._discovery.at)
            poll_at = max(poll_at, self._paused_until)
            if now >= poll_at:
                self._poll(now)
            else:
                # Sleep until the next instant at which there is something to do without being woken.
                self._wake.wait(min(deadline, poll_at) - now)
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
        while self._claimed:
            self._claimed.pop().release(put_off_ms=DUE_NOW_MS)

    def after_lost_answer(self) -> None:
        """Pause, and before the next claim hand back what a claim whose answer was lost may have taken."""
        self._uncertain = True
        self._paused_until = time.monotonic() + AWAY_WAIT_SECONDS * random.uniform(0.5, 1.5)

    def _poll(self, now: float) -> None:
        """Find lanes when that is due, and claim from those that have something due."""
        process = self._process
        if not process.may_claim():
            self._paused_until = now + FIRST_IDLE_WAIT_SECONDS
            return
        try:
            if self._uncertain or now >= self._survey_at:
                self._take_stock()
            if now >= self._discovery.at:
                # What is known of need not wait for it, but for one claim only.
                self._is_look_late = not self._is_look_late and self._lanes.next_at() <= now
                if not self._is_look_late:
                    revision = self._discovery.step()
                    if revision > process.rules.revision:
                        self._learn(revision)
            self._claim()
        except UnavailableError as error:
            if not self._is_away:
                log.warning("cannot claim from %s, trying again: %s", self._queue, error.explained)
            self._is_away = True
            self.after_lost_answer()

    def _take_stock(self) -> None:
        """Look for strays after an answer was lost, and now and then for shards that the setting does not know."""
        if self._uncertain:
            self._hand_back_strays()
        if time.monotonic() >= self._survey_at:
            self._lanes.extend(self._shards.survey())
            self._survey_at = time.monotonic() + shards.SURVEY_SECONDS

    def _claim(self) -> None:
        """Claim from the lanes whose turn it is, as far as their endpoints have room and their gates may be open."""
        process, rules, gating, now = self._process, self._process.rules, self._gating, time.monotonic()
        self._has_room = False  # who is refused from here on is told
        if gating.freed or gating.revision != rules.revision:
            gating.follow(now)
        shares, targets = process.shares, process.targets
        if targets.shut:
            self._shut_lanes(now)
        shares.want(self._queue, self._lanes.wanting(now))
        quick, others = shares.quick, shares.others
        if rules.windowed:
            # What a window has counted must not wait for a connection, nor behind what others have claimed ahead.
            quick, others = quick - rules.windowed, others | (quick & rules.windowed)
        take = targets.taking(shares.slots, shares.reserve, quick, others)
        wanted = gating.pick(now, take) if rules.by_endpoint else self._lanes.pick(now, take)
        if not wanted:
            return
        reserved = Counter[str]()
        for lane, quota, _ in wanted:
            reserved[lane.endpoint] += quota
        claimed: list[Attempt] = []
        try:
            for part, gates in gating.parts(wanted) if rules.by_endpoint else ((wanted, ()),):
                self._ask(part, gates, claimed)
        finally:
            shares.settle(reserved, claimed, now)
            # By instant, and what is due already by priority before that.
            claimed.sort(key=attrgetter("due_at"))
            if len({attempt.claim.priority for attempt in claimed}) > 1:
                now = time.monotonic()
                claimed.sort(key=lambda one: -one.claim.priority if one.due_at <= now else 1)
            self._claimed = claimed
        self._is_away = False

    def _shut_lanes(self, now: float) -> None:
        """Leave alone what has something due for a target whose breaker is open; it wants no slots meanwhile."""
        shut = self._process.targets.shut
        for endpoint in shut.keys() & set(self._lanes.wanting(now)):
            until = shut[endpoint].shut_until(now, endpoint)
            if until > now:
                self._lanes.shut(endpoint, until)

    def _ask(self, wanted: Sequence[Wanted], gates: Sequence[Gate], claimed: list[Attempt]) -> None:
        """Claim from some lanes, through their gates if they have any, and take in the answer."""
        process, known = self._process, self._gating.revision  # by which the lanes were picked
        asked_at = time.monotonic()
        taken = (partial(claim_gated, gates=gates) if gates else claim)(
            process.database,
            queue=self._queue,
            worker_id=process.worker_id,
            wanted=wanted,
            ahead_ms=process.settings.claim_ahead_ms,
            flow_revision=known,
            clock=self._clock,
        )
        if taken.flow_revision > known:
            # Nothing was claimed, and of its lanes nothing is known: they are asked again, by the rules in force.
            self._learn(taken.flow_revision)
            return
        claimed += [Attempt(one, process.finalizer, process.shares) for one in taken.claims]
        now = time.monotonic()
        process.on_revision(taken.catalog_revision)
        took, rows = now - asked_at, len(taken.claims)
        self._seconds[bisect_left(series.CLAIM_SECONDS.buckets, took) + 1] += 1
        self._seconds[0] += took
        self._rows[bisect_left(series.CLAIM_ROWS.buckets, rows) + 1] += 1
        self._rows[0] += rows
        self._lanes.claimed(wanted, taken.found, taken.now, now)
        if all(taken.found[lane].rows < quota for lane, quota, _ in wanted):
            self._discovery.drained(len(taken.claims), now)
        if gates and (missing := self._gating.answered(wanted, gates, taken, now)):
            add_gates(process.database, missing)

    def _learn(self, revision: int) -> None:
        """Read rules that are newer than those that are known here."""
        self._process.rules.observe(revision)
        self._process.rules.refresh()

    def _hand_back_strays(self) -> None:
        """Hand back the executions of a claim whose answer was lost.

        Only this thread claims from this queue, so whatever is neither in flight nor being written is a stray.
        """
        process = self._process
        known = process.shares.claims() | process.finalizer.pending()
        claimed = claims_of(process.database, process.worker_id, self._queue)
        strays = claimed - known - process.shares.claims() - process.finalizer.pending()
        for stray in strays:
            process.finalizer.submit_release(Release(stray))
        process.values.add(series.STRAYS, amount=len(strays))
        self._uncertain = False

    def _hinted(self, lanes: Sequence[Lane], since: datetime | None) -> None:
        self._hints.append((lanes, since))
        self._wake.set()

    def _told_of_room(self) -> None:
        self._has_room = True
        self._wake.set()

    def _told_of_ends(self, freed: Sequence[tuple[str, str]]) -> None:
        self._gating.freed.extend(freed)
        self._told_of_room()


def _conclude_without_verdict(attempt: Attempt, reason: str) -> None:
    """Conclude as failed: without a verdict an attempt is never a success."""
    error = DeliveryError("NO_VERDICT", reason)
    claim = attempt.claim
    tried = Tried(claim.execution_id, claim.attempt, claim.max_attempts)
    attempt.conclude(decide(error, None, tried, RetryPolicy(), spread=0.0))
