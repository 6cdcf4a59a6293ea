"""Claimer: claims from the partitions of one queue whose turn it is, and takes in what the database answers."""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter

from app.kernel.metrics import series
from app.queue.claiming.admission import AdmissionRule, ClaimRequest
from app.queue.claiming.claim import claim, claims_of
from app.queue.claiming.partition import Wanted
from app.queue.claiming.release import Release
from app.queue.executions.database_clock import DatabaseClock
from brokers.attempt import Attempt
from brokers.discovery import Discovery
from brokers.sharing.choice import Choice
from brokers.sharing.partitions import KnownPartitions
from brokers.worker_process import WorkerProcess


class Claimer:
    """Belongs to the thread of its queue's consumer, which finds the partitions."""

    def __init__(
        self,
        process: WorkerProcess,
        queue: str,
        partitions: KnownPartitions,
        rules: Sequence[AdmissionRule],
        discovery: Discovery,
    ) -> None:
        self.claimed: list[Attempt] = []  # not handed out yet
        self._process = process
        self._queue = queue
        self._partitions = partitions
        self._rules = rules
        self._choice = Choice(partitions, rules, process.shares, process.rules)
        self._discovery = discovery
        self._clock = DatabaseClock(learns=not process.database.is_cockroach)
        # Of its queue no other thread counts.
        self._seconds = process.values.cells(series.CLAIM_SECONDS)[queue,]
        self._rows = process.values.cells(series.CLAIM_ROWS)[queue,]

    def claim(self) -> bool:
        """Claim from the partitions whose turn it is, as far as every rule has room for them.

        Returns whether the database has answered. Raises UnavailableError; what was claimed before it is kept.
        """
        process, now = self._process, time.monotonic()
        # Before the partitions are chosen: a claim with an older revision than the database's claims nothing.
        revision = process.rules.revision
        if self.is_paused():
            return False
        self._choice.begin(now)
        process.shares.want(self._queue, self._partitions.wanting(now))
        wanted = self._choice.choose(now)
        if not wanted:
            return False
        reserved = Counter[str]()
        for partition, quota, _ in wanted:
            reserved[partition.endpoint] += quota
        claimed: list[Attempt] = []
        try:
            for owner, part in self._parts(wanted):
                self._ask(owner, part, revision, claimed)
        finally:
            process.shares.settle(reserved, claimed, now)
            if process.finalizer.outcomes.spans is not None and claimed:
                process.finalizer.outcomes.spans.claimed(self._queue, claimed, now)
            self.claimed = _in_order(claimed)
        return True

    def freed(self, ended: Sequence[tuple[str, str]]) -> None:
        """Tell the rules which endpoints and limit keys have room again; called by any thread."""
        for rule in self._rules:
            rule.freed(ended)

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

    def _parts(self, wanted: list[Wanted]) -> list[tuple[AdmissionRule | None, list[Wanted]]]:
        """Divide partitions by the rule that claims from them itself, if any."""
        if not self._process.rules.by_endpoint:
            return [(None, wanted)]
        parts: dict[AdmissionRule | None, list[Wanted]] = {}
        for one in wanted:
            owner = next((rule for rule in self._rules if rule.claims(one.partition)), None)
            parts.setdefault(owner, []).append(one)
        return list(parts.items())

    def _ask(self, rule: AdmissionRule | None, wanted: Sequence[Wanted], revision: int, claimed: list[Attempt]) -> None:
        """Claim from some partitions, and take in the answer."""
        process, database, asked_at = self._process, self._process.database, time.monotonic()
        request = ClaimRequest(self._queue, process.worker_id, process.settings.claim_ahead_ms, revision, self._clock)
        if rule is None:
            taken = claim(database, wanted=wanted, **request._asdict())
        else:
            taken = rule.claim(database, wanted, request)
        if taken.flow_revision > revision:
            # Nothing was claimed, and of its partitions nothing is known: they are asked again, by the rules in force.
            self.learn(taken.flow_revision)
            return
        claimed += [Attempt(one, process.finalizer, process.shares) for one in taken.claims]
        now = time.monotonic()
        process.on_revision(taken.catalog_revision)
        self._count(now - asked_at, len(taken.claims))
        self._partitions.claimed(wanted, taken.found, taken.now, now)
        if all(taken.found[partition].rows < quota for partition, quota, _ in wanted):
            self._discovery.drained(len(taken.claims), now)
        if rule is not None:
            rule.answered(database, wanted, taken, now)

    def _count(self, seconds: float, rows: int) -> None:
        for cell, bounds, value in (
            (self._seconds, series.CLAIM_SECONDS.buckets, seconds),
            (self._rows, series.CLAIM_ROWS.buckets, rows),
        ):
            cell[bisect_left(bounds, value) + 1] += 1
            cell[0] += value


def _in_order(claimed: list[Attempt]) -> list[Attempt]:
    """Order attempts by instant, and those that are due already by priority before that."""
    claimed.sort(key=attrgetter("due_at"))
    if len({attempt.claim.priority for attempt in claimed}) > 1:
        now = time.monotonic()
        claimed.sort(key=lambda one: -one.claim.priority if one.due_at <= now else 1)
    return claimed
