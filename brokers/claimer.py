"""Claimer: chooses partitions of one queue, claims from them, and processes the answers of the database."""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from app.kernel.metrics import series
from app.queue.claiming.admission import AdmissionRule, Room
from app.queue.claiming.claim import ClaimAnswer, claim, claims_of
from app.queue.claiming.endpoint_rules import FlowRules
from app.queue.claiming.partition import ClaimRequest, Partition, PartitionQuota
from app.queue.claiming.release import Release
from app.queue.executions.database_clock import DatabaseClock
from brokers.attempt import Attempt
from brokers.discovery import Discovery
from brokers.sharing.fair_shares import Shares
from brokers.sharing.partitions import KnownPartitions
from brokers.worker_process import WorkerProcess

MAX_REPEATED = 5  # repetitions of a claim while endpoints change


class Choice:
    """Takes the next partitions of a queue by priority, and of each the least number that all rules admit.

    Belongs to the thread of one consumer; does no I/O. `now` is `time.monotonic()`.
    """

    def __init__(
        self, queue: str, partitions: KnownPartitions, rules: Sequence[AdmissionRule], shares: Shares, known: FlowRules
    ) -> None:
        self._queue = queue
        self._partitions = partitions
        self._rules = rules
        self._plain_rules = [rule for rule in rules if not rule.of_settings]
        self._shares = shares
        self._settings = known
        self._had_settings = False
        self._now = 0.0  # of this claim
        self._closed: dict[Partition, Room] = {}  # by this claim

    def choose(self, now: float) -> list[PartitionQuota]:
        """Open the partitions that rules open, then choose partitions and reserve slots for them.

        Partitions that a rule closes are replaced.
        """
        self._now, partitions = now, self._partitions
        has_settings = bool(self._settings.by_endpoint)
        for rule in self._rules if has_settings or self._had_settings else self._plain_rules:
            opened = rule.begin(now)
            for endpoint in opened.endpoints:
                partitions.close(endpoint, now)
            for partition in opened.partitions:
                partitions.rest(partition, now)
        self._had_settings = has_settings
        if partitions.event_at <= now:
            partitions.come_due(now)
        self._shares.want(self._queue, partitions.wanting)
        while True:
            wanted = partitions.pick(now, self._admit)
            closed, self._closed = self._closed, {}
            for partition, room in closed.items():
                if room.of_endpoint:
                    partitions.close(partition.endpoint, room.closed_until)
                else:
                    partitions.rest(partition, room.closed_until)
            if wanted or not closed:
                return wanted

    def _admit(self, partition: Partition, most: int) -> int:
        """Reserve slots for a partition: the minimum of all rules, within the fair share of its endpoint."""
        now = self._now
        rules = self._rules if partition.endpoint in self._settings.by_endpoint else self._plain_rules
        for rule in rules:
            room = rule.room(partition, now)
            most = min(most, room.slots)
            if most <= 0:
                if room.closed_until > now:
                    self._closed[partition] = room
                    return 0
                break
        # Also for none: a refusal is followed by a wake-up when slots are given back.
        slots = self._shares.reserve(partition.endpoint, max(0, most))
        if slots:
            for rule in rules:
                rule.reserved(partition, slots)
        return slots


class Claimer:
    """Belongs to the consumer thread of its queue."""

    def __init__(self, process: WorkerProcess, queue: str, partitions: KnownPartitions, discovery: Discovery) -> None:
        self.claimed: list[Attempt] = []  # not handed out yet
        self.rules = process.admission(queue)
        self._process = process
        self._queue = queue
        self._partitions = partitions
        self._choice = Choice(queue, partitions, self.rules, process.shares, process.rules)
        self._discovery = discovery
        self._clock = DatabaseClock(learns=not process.database.is_cockroach)
        self._known = process.rules.by_endpoint  # when the claim began
        # Written by this thread alone; an idle queue has its series too.
        self._seconds = process.values.cells(series.CLAIM_SECONDS)[queue,]
        self._rows = process.values.cells(series.CLAIM_ROWS)[queue,]

    def claim(self, revision: int) -> bool:
        """Claim from the next partitions, within the limits of all rules.

        `revision` is the revision of the endpoint rules before this call: a claim by older rules than the database's
        claims nothing. Returns whether the database has answered. Raises UnavailableError; earlier claims are kept.
        """
        process, now = self._process, time.monotonic()
        self._known = process.rules.by_endpoint
        wanted = self._choice.choose(now)
        if not wanted:
            return False
        reserved = Counter[str]()
        for partition, quota, _ in wanted:
            reserved[partition.endpoint] += quota
        claimed: list[Attempt] = []
        try:
            for owner, part in self._by_owner(wanted).items() if process.rules.by_endpoint else ((None, wanted),):
                self._ask(owner, part, revision, claimed)
        finally:
            process.shares.settle(reserved, claimed, now)
            spans = process.finalizer.outcomes.spans
            if spans is not None and claimed:
                spans.claimed(self._queue, claimed, now)
            now = time.monotonic()  # due attempts by priority, then later attempts by instant
            claimed.sort(key=lambda one: (0, -one.claim.priority, one.due_at) if one.due_at <= now else (1, one.due_at))
            self.claimed = claimed
        return True

    def release_orphans(self) -> None:
        """Release the executions of a claim whose answer was lost.

        Only this thread claims from this queue, so a claim neither in flight nor being written is an orphan.
        """
        process = self._process
        known = process.shares.claims() | process.finalizer.pending()
        claimed = claims_of(process.database, process.worker_id, self._queue)
        # Read again: a claim may have moved from the shares to the finalizer between the first two reads.
        orphans = claimed - known - process.shares.claims() - process.finalizer.pending()
        for orphan in orphans:
            process.finalizer.submit(Release(orphan))
        process.values.add(series.ORPHANS, amount=len(orphans))

    def _by_owner(self, wanted: Sequence[PartitionQuota]) -> dict[AdmissionRule | None, list[PartitionQuota]]:
        """Group partitions by the rule that claims from them with its own statement, if any."""
        parts: dict[AdmissionRule | None, list[PartitionQuota]] = {}
        for one in wanted:
            owner = next((rule for rule in self.rules if rule.claims(one.partition)), None)
            parts.setdefault(owner, []).append(one)
        return parts

    def _ask(
        self, rule: AdmissionRule | None, wanted: Sequence[PartitionQuota], revision: int, claimed: list[Attempt]
    ) -> None:
        """Claim from partitions with one statement, and process its answer."""
        process, database, asked_at = self._process, self._process.database, time.monotonic()
        request = ClaimRequest(self._queue, process.worker_id, process.settings.claim_ahead_ms, revision, self._clock)
        answer = claim(database, wanted, request) if rule is None else rule.claim(database, wanted, request)
        if answer.flow_revision > revision:  # the claim took nothing and reported nothing
            repeated = self._repeat(rule, wanted, request, answer.flow_revision)
            if repeated is None:
                return  # the next claim is by the new rules
            answer = repeated
        claimed += [Attempt(one, process.finalizer, process.shares) for one in answer.claims]
        now = time.monotonic()
        process.on_revision(answer.catalog_revision)
        self._seconds[bisect_left(series.CLAIM_SECONDS.buckets, now - asked_at) + 1] += 1
        self._seconds[0] += now - asked_at
        self._rows[bisect_left(series.CLAIM_ROWS.buckets, len(answer.claims)) + 1] += 1
        self._rows[0] += len(answer.claims)
        self._partitions.claimed(wanted, answer.found, answer.now, now)
        if all(answer.found[partition].rows < quota for partition, quota, _ in wanted):
            self._discovery.drained(len(answer.claims), asked_at, now)
        if rule is not None:
            rule.answered(database, wanted, answer, now)

    def _repeat(
        self, rule: AdmissionRule | None, wanted: Sequence[PartitionQuota], request: ClaimRequest, newest: int
    ) -> ClaimAnswer | None:
        """Repeat a claim by older rules than the `newest`; None if the rules of its endpoints have changed.

        Other endpoints may change all the time, and must not stop these.
        """
        database, rules = self._process.database, self._process.rules
        for _ in range(MAX_REPEATED):
            revision = rules.revision_of(self._known, self._queue, {one.partition.endpoint for one in wanted})
            if revision is None:
                rules.refresh(newest)
                return None
            request = request._replace(flow_revision=revision)
            answer = claim(database, wanted, request) if rule is None else rule.claim(database, wanted, request)
            if answer.flow_revision <= revision:
                return answer
        return None
