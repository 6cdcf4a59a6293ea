"""Known partitions of a queue: when each has due executions, and from which mark a claim reads it."""

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from math import inf

from app.kernel.formats import EPOCH
from app.queue.claiming.partition import Partition, PartitionQuota
from app.queue.executions.watermark import SLACK
from brokers.sharing.ready_partitions import Known, Ready, Take

FIRST_BATCH = 25
MAX_PER_CLAIM = 200
MAX_PARTITIONS = 20_000  # known partitions of one endpoint; later full scans find the rest
FEW_INSTANTS = 1000  # up to this number, instants of forgotten partitions are not dropped
REFUSED_SECONDS = 0.05  # until the next try after no rule had capacity, without a wake-up


class KnownPartitions:
    """The known partitions of one queue; belongs to one thread, does no I/O and reads no clock.

    `now` and all floats are on one monotonic clock; datetimes are on the database's clock. A partition is known while
    it has due executions, or will have some soon: a poll or a full scan finds them again once it is forgotten. It may
    be picked `ahead` seconds before its instant. A claim reads a partition from its mark on, because dead entries of
    claimed executions stay in the index until vacuum. Only released executions can wait behind the mark.
    """

    def __init__(
        self, shards: int, *, ahead: float, batch: int = FIRST_BATCH, max_partitions: int = MAX_PARTITIONS
    ) -> None:
        self._ahead = ahead
        self._first_batch = batch
        self._max_partitions = max_partitions
        self.since: list[datetime] = []  # the `run_at` from which a poll reads each shard; replaced, never changed
        self._known: dict[Partition, Known] = {}
        self._counts = Counter[str]()  # of known partitions, by endpoint
        self._resting = defaultdict[str, dict[Partition, None]](dict)  # by endpoint
        self._instants: list[tuple[float, int, Partition, datetime | float]] = []  # a heap
        self._max_instants = FEW_INSTANTS
        self._order = itertools.count()
        self._ready = Ready()
        self.wanting: Collection[str] = self._ready.wanting  # open endpoints with due executions
        self.event_at = inf  # when to call `come_due`: an instant comes, or a closed endpoint opens
        self.pick_at = inf  # when a pick may find capacity; a past instant means now
        self.start = EPOCH  # claims from new partitions and the next poll read from here
        self.extend(shards)

    def __len__(self) -> int:
        return len(self._known)

    def extend(self, shards: int) -> None:
        """Poll at least this number of shards from now on."""
        self.since = self.since + [EPOCH] * (shards - len(self.since))

    def found(
        self, due: Iterable[tuple[Partition, datetime]], db_now: datetime, now: float, *, by_poll: bool = False
    ) -> None:
        """Add the rows found by a poll of all shards or by a full scan; they may lie behind the marks of partitions."""
        self.start = db_now - SLACK
        if by_poll:
            self.since = [self.start] * len(self.since)
        for partition, run_at in due:
            pick_at = now + (run_at - db_now).total_seconds() - self._ahead
            self.noticed(partition, now, min(run_at, self.start), pick_at=pick_at, instant=run_at)

    def noticed(
        self,
        partition: Partition,
        now: float,
        since: datetime | None = None,
        *,
        pick_at: float = -inf,
        instant: datetime | float = -inf,
    ) -> Known | None:
        """Add something due in a partition, now or at an instant from `pick_at` on; nothing waits before `since`.

        Returns None for a new partition of an endpoint with too many: the next full scan finds it.
        """
        known = self._known.get(partition)
        if known is None:
            endpoint = partition.endpoint
            if self._counts[endpoint] >= self._max_partitions and not self._give_place(endpoint):
                return None
            known = self._known[partition] = Known(self.start if since is None else since, self._first_batch)
            self._counts[endpoint] += 1
        elif since is not None:
            known.since = min(known.since, since)
        if pick_at > now:
            if instant not in known.instants:
                known.instants.add(instant)
                heapq.heappush(self._instants, (pick_at, next(self._order), partition, instant))
                self.event_at = min(self.event_at, pick_at)
        elif known.rests_until <= now and not known.is_ready:
            known.is_ready = True
            self._ready.add(partition)
            self.pick_at = -inf
        return known

    def rest(self, partition: Partition, until: float, since: datetime | None = None) -> None:
        """Skip a partition with due executions until an instant."""
        known = self.noticed(partition, -inf, since, pick_at=until, instant=until)
        if known is not None:
            known.rests_until = until
            if known.is_ready:
                self._ready.discard(partition)
                known.is_ready = False
            self._resting[partition.endpoint][partition] = None

    def close(self, endpoint: str, until: float) -> None:
        """Close all partitions of an endpoint until an instant; a past instant opens them."""
        self._ready.close(endpoint, until)
        self.event_at = min(self.event_at, until)

    def pick(self, now: float, take: Take, arms: int = 16, most: int = MAX_PER_CLAIM) -> list[PartitionQuota]:
        """Choose the partitions of the next claim and reserve their slots, `most` in all; `take` reserves.

        Pick again after an empty pick at `pick_at`, or when a rule that refused has capacity.
        """
        if self.event_at <= now:
            self.come_due(now)
        if not self._ready.open_partitions:
            self.pick_at = inf
            return []
        known = self._known
        slots = self._ready.pick(take, known, arms=arms, most=most)
        self.pick_at = -inf if slots else now + REFUSED_SECONDS
        return [PartitionQuota(partition, quota, known[partition].since) for partition, quota in slots.items()]

    def claimed(
        self,
        wanted: Sequence[PartitionQuota],
        found: Mapping[Partition, tuple[int, datetime]],
        db_now: datetime,
        now: float,
    ) -> None:
        """Apply the answer to a claim: by partition, the number of rows found and the instant up to which all were."""
        self.start = db_now - SLACK
        ready = self._ready
        if ready.top is not None:
            ready.claimed({partition: found[partition][0] for partition, _, _ in wanted})
        for partition, quota, _ in wanted:
            count, seen = found[partition]
            known = self._known.get(partition)
            if known is None:
                continue  # forgotten, because it rested
            if count >= quota:
                known.since = min(seen, self.start)
                known.batch = min(max(known.batch, quota) * 2, MAX_PER_CLAIM)
                continue
            known.since = self.start
            if known.is_ready:
                ready.discard(partition)
                known.is_ready = False
            if known.instants:
                known.instants = self._to_come(known.instants, db_now, now)
            if not known.instants:
                endpoint = partition.endpoint
                del self._known[partition]
                self._resting.get(endpoint, {}).pop(partition, None)
                self._counts[endpoint] -= 1
                if not self._counts[endpoint]:
                    # Endpoints come and go; only endpoints with known partitions are kept.
                    del self._counts[endpoint]
                    self._resting.pop(endpoint, None)
        if not ready.open_partitions:
            self.pick_at = inf

    def _give_place(self, endpoint: str) -> bool:
        """Forget a resting partition of an endpoint; False when there is none."""
        resting = self._resting[endpoint]
        while resting:
            partition = next(iter(resting))
            del resting[partition]
            known = self._known.get(partition)
            if known is not None and not known.is_ready:
                del self._known[partition]
                self._counts[endpoint] -= 1
                if len(self._instants) > self._max_instants:
                    self._drop_instants()
                return True
        return False

    def _drop_instants(self) -> None:
        """Drop the instants of forgotten partitions; rarely, so that each costs little."""
        kept = [
            entry for entry in self._instants if entry[2] in self._known and entry[3] in self._known[entry[2]].instants
        ]
        heapq.heapify(kept)
        self._instants, self._max_instants = kept, max(FEW_INSTANTS, 2 * len(kept))

    def come_due(self, now: float) -> None:
        """Make the partitions ready whose instants have come."""
        while self._instants and self._instants[0][0] <= now:
            _, _, partition, instant = heapq.heappop(self._instants)
            known = self._known.get(partition)
            if known is None or instant not in known.instants:
                continue
            known.instants.discard(instant)
            # A resting partition has another instant to come.
            if not known.is_ready and known.rests_until <= now:
                known.is_ready = True
                self._ready.add(partition)
        opens_at = self._ready.open_until(now)
        if self._ready.open_partitions:
            self.pick_at = -inf
        self.event_at = min(self._instants[0][0] if self._instants else inf, opens_at)

    def _to_come(self, instants: set[datetime | float], db_now: datetime, now: float) -> set[datetime | float]:
        """Return the instants that a claim at this moment does not reach."""
        reach = db_now + timedelta(seconds=self._ahead)
        return {
            instant for instant in instants if (instant > reach if isinstance(instant, datetime) else instant > now)
        }
