"""Claimer: claims from the lanes of one queue whose turn it is, and takes in what the database answers."""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from functools import partial
from operator import attrgetter

from app.features.limits.limited_claim import claim_gated
from app.features.limits.store import Gate
from app.features.limits.store import add as add_gates
from app.kernel.metrics import series
from app.queue.claiming.claim import claim, claims_of
from app.queue.claiming.partition import Wanted
from app.queue.claiming.release import Release
from app.queue.executions.database_clock import DatabaseClock
from brokers.attempt import Attempt
from brokers.discovery import Discovery
from brokers.gating import Gating
from brokers.sharing.partitions import Lanes
from brokers.worker_process import WorkerProcess


class Claimer:
    """Belongs to the thread of its queue's consumer, which finds the lanes."""

    def __init__(self, process: WorkerProcess, queue: str, lanes: Lanes, gating: Gating, discovery: Discovery) -> None:
        self.claimed: list[Attempt] = []  # not handed out yet
        self._process = process
        self._queue = queue
        self._lanes = lanes
        self._gating = gating
        self._discovery = discovery
        self._clock = DatabaseClock(learns=not process.database.is_cockroach)
        # Of its queue no other thread counts.
        self._seconds = process.values.cells(series.CLAIM_SECONDS)[queue,]
        self._rows = process.values.cells(series.CLAIM_ROWS)[queue,]

    def claim(self) -> bool:
        """Claim from the lanes whose turn it is, as far as their endpoints have room and their gates may be open.

        Returns whether the database has answered. Raises UnavailableError; what was claimed before it is kept.
        """
        process, rules, gating, now = self._process, self._process.rules, self._gating, time.monotonic()
        if gating.freed or gating.revision != rules.revision:
            gating.follow(now)
        # By rules that are as new as the revision that the claim tells, so that none goes by a pause.
        if self.is_paused():
            return False
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
            return False
        reserved = Counter[str]()
        for lane, quota, _ in wanted:
            reserved[lane.endpoint] += quota
        claimed: list[Attempt] = []
        try:
            for part, gates in gating.parts(wanted) if rules.by_endpoint else ((wanted, ()),):
                self._ask(part, gates, claimed)
        finally:
            shares.settle(reserved, claimed, now)
            if process.finalizer.outcomes.spans is not None and claimed:
                process.finalizer.outcomes.spans.claimed(self._queue, claimed, now)
            # By instant, and what is due already by priority before that.
            claimed.sort(key=attrgetter("due_at"))
            if len({attempt.claim.priority for attempt in claimed}) > 1:
                now = time.monotonic()
                claimed.sort(key=lambda one: -one.claim.priority if one.due_at <= now else 1)
            self.claimed = claimed
        return True

    def is_paused(self) -> bool:
        """Return whether its queue is paused; then it wants no slots that others could use."""
        if self._queue not in self._process.rules.paused_queues:
            return False
        self._process.shares.want(self._queue, ())
        return True

    def learn(self, revision: int) -> None:
        """Read rules that are newer than those that are known here."""
        self._process.rules.observe(revision)
        self._process.rules.refresh()

    def hand_back_strays(self) -> None:
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
            self.learn(taken.flow_revision)
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
