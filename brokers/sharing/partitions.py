"""Known partitions of a queue: those with something due, from when on, and where each is read from."""

import heapq
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from math import inf

from app.kernel.formats import EPOCH
from app.queue.claiming.partition import Partition, Wanted
from app.queue.executions.watermark import SLACK
from brokers.sharing.ready_partitions import Known, Ready, Take

FIRST_APPETITE = 25
MOST_PER_CLAIM = 200
MOST_PARTITIONS = 20_000  # of one endpoint that are known of; the next full scans find the others
FEW_INSTANTS = 1000  # to come, of which it does not matter how many are those of forgotten partitions
REFUSED_SECONDS = 0.05  # after which what found no room is tried again, though nobody told of room


class KnownPartitions:
    """The known partitions of one queue; belongs to one thread, does no I/O and is told the time.

    `now` and what is compared with it is on one monotonic clock, datetimes are by the database's. A partition is known
    while it has something due, or due soon, so what is forgotten has nothing that a poll or a full scan will not find.
    It may be picked `ahead` seconds before its instant. A read of a partition begins at its mark, behind which only
    what was handed back can wait: dead entries of what was claimed stay in the index until they are vacuumed.
    """

    def __init__(self, shards: int, *, ahead: float, appetite: int = FIRST_APPETITE) -> None:
        self._ahead = ahead
        self._first_appetite = appetite
        self.since: list[datetime] = []  # the `run_at` from which a poll reads each shard; replaced, never changed
        self._known: dict[Partition, Known] = {}
        self._counts: dict[str, int] = {}  # of each endpoint
        self._resting: dict[str, dict[Partition, None]] = {}  # those that rest, of each endpoint
        self._instants: list[tuple[float, int, Partition, datetime | float]] = []  # a heap
        self._most_instants = FEW_INSTANTS
        self._order = itertools.count()
        self._ready = Ready()
        self._event_at = inf  # when the next instant comes, or the next endpoint that is shut opens
        self._pick_at = inf  # when a pick may find room
        self._start = (
            EPOCH  # where to begin to read a partition of which nothing is known but that it has got something
        )
        self.extend(shards)

    def __len__(self) -> int:
        return len(self._known)

    def extend(self, shards: int) -> None:
        """Look at so many shards at least from now on."""
        self.since = self.since + [EPOCH] * (shards - len(self.since))

    def wanting(self, now: float) -> Collection[str]:
        """Return the endpoints that have something due and are not shut."""
        if self._event_at <= now:
            self._come_due(now)
        return self._ready.wanting

    def found(
        self, due: Iterable[tuple[Partition, datetime]], db_now: datetime, now: float, *, by_poll: bool = False
    ) -> None:
        """Take in rows that a poll of all shards or a full scan found; they may lie behind the marks of partitions."""
        self._start = db_now - SLACK
        if by_poll:
            self.since = [self._start] * len(self.since)
        for partition, run_at in due:
            is_new_to_many = self._counts.get(partition.endpoint, 0) >= MOST_PARTITIONS and partition not in self._known
            if is_new_to_many and not self._give_place(partition.endpoint):
                continue  # the next full scan finds it
            pick_at = now + (run_at - db_now).total_seconds() - self._ahead
            self._expect(partition, run_at, pick_at, min(run_at, self._start), now)

    def noticed(self, partition: Partition, due_at: float, since: datetime | None = None) -> None:
        """Take in that a partition has something due at an instant, and nothing before `since`."""
        if self._counts.get(partition.endpoint, 0) < MOST_PARTITIONS or partition in self._known:
            self._expect(partition, due_at - self._ahead, due_at - self._ahead, since)

    def rest(self, partition: Partition, until: float, since: datetime | None = None) -> None:
        """Leave a partition that has something due alone until an instant."""
        known = self._expect(partition, until, until, since)
        known.rests_until = until
        if known.is_ready:
            self._ready.discard(partition)
            known.is_ready = False
        self._resting.setdefault(partition.endpoint, {})[partition] = None

    def shut(self, endpoint: str, until: float) -> None:
        """Leave all partitions of an endpoint alone until an instant; one that has passed opens them."""
        self._ready.shut(endpoint, until)
        self._event_at = min(self._event_at, until)

    def pick(self, now: float, take: Take, arms: int = 16, most: int = MOST_PER_CLAIM) -> list[Wanted]:
        """Choose the partitions of the next claim and reserve slots for them, their quotas, `most` in all.

        After an empty one `next_at` tells when to pick again; so should whoever refused, once there is room.
        """
        if self._event_at <= now:
            self._come_due(now)
        if not self._ready.open_partitions:
            self._pick_at = inf
            return []
        known = self._known
        slots = self._ready.pick(take, known, arms=arms, most=most)
        self._pick_at = -inf if slots else now + REFUSED_SECONDS
        return [Wanted(partition, quota, known[partition].since) for partition, quota in slots.items()]

    def claimed(
        self, wanted: Sequence[Wanted], found: Mapping[Partition, tuple[int, datetime]], db_now: datetime, now: float
    ) -> None:
        """Take in how many rows were found of each partition that was wanted, and up to where everything was seen."""
        self._start = db_now - SLACK
        ready = self._ready
        if ready.top is not None:
            ready.claimed({partition: found[partition][0] for partition, _, _ in wanted})
        for partition, quota, _ in wanted:
            count, seen = found[partition]
            known = self._known.get(partition)
            if known is None:
                continue  # it was put to rest meanwhile
            if count >= quota:
                known.since = min(seen, self._start)
                known.appetite = min(max(known.appetite, quota) * 2, MOST_PER_CLAIM)
                continue
            known.since = self._start
            if known.is_ready:
                ready.discard(partition)
                known.is_ready = False
            if known.instants:
                known.instants = self._to_come(known.instants, db_now, now)
            if not known.instants:
                self._forget(partition)
        if not ready.open_partitions:
            self._pick_at = inf

    def next_at(self) -> float:
        """Return the instant of the next pick that may find something; one that has passed means now."""
        return min(self._event_at, self._pick_at)

    def _expect(
        self, partition: Partition, instant: datetime | float, pick_at: float, since: datetime | None, now: float = -inf
    ) -> Known:
        """Know a partition, to be picked from now on if its instant has come, else then."""
        known = self._known.get(partition)
        if known is None:
            known = self._known[partition] = Known(self._start if since is None else since, self._first_appetite)
            self._counts[partition.endpoint] = self._counts.get(partition.endpoint, 0) + 1
        elif since is not None:
            known.since = min(known.since, since)
        if pick_at <= now and known.rests_until <= now:
            if not known.is_ready:
                known.is_ready = True
                self._ready.add(partition)
                self._pick_at = -inf
        elif instant not in known.instants:
            known.instants.add(instant)
            heapq.heappush(self._instants, (pick_at, next(self._order), partition, instant))
            self._event_at = min(self._event_at, pick_at)
        return known

    def _give_place(self, endpoint: str) -> bool:
        """Forget a partition of an endpoint that rests; False when there is none."""
        resting = self._resting.get(endpoint, {})
        while resting:
            partition = next(iter(resting))
            del resting[partition]
            known = self._known.get(partition)
            if known is not None and not known.is_ready:  # it may have come back meanwhile
                self._forget(partition)
                if len(self._instants) > self._most_instants:
                    self._drop_instants()
                return True
        return False

    def _forget(self, partition: Partition) -> None:
        del self._known[partition]
        resting = self._resting.get(partition.endpoint)
        if resting:
            resting.pop(partition, None)
        left = self._counts.pop(partition.endpoint) - 1
        if left:
            self._counts[partition.endpoint] = left
        else:
            self._resting.pop(partition.endpoint, None)

    def _drop_instants(self) -> None:
        """Drop the instants of forgotten partitions; seldom enough that each costs little."""
        kept = [
            entry for entry in self._instants if entry[2] in self._known and entry[3] in self._known[entry[2]].instants
        ]
        heapq.heapify(kept)
        self._instants, self._most_instants = kept, max(FEW_INSTANTS, 2 * len(kept))

    def _come_due(self, now: float) -> None:
        """Let the partitions be picked whose instants have come."""
        while self._instants and self._instants[0][0] <= now:
            _, _, partition, instant = heapq.heappop(self._instants)
            known = self._known.get(partition)
            if known is None or instant not in known.instants:
                continue  # it was claimed before
            known.instants.discard(instant)
            # One that rests has another instant to come.
            if not known.is_ready and known.rests_until <= now:
                known.is_ready = True
                self._ready.add(partition)
        opens_at = self._ready.open_until(now)
        if self._ready.open_partitions:
            self._pick_at = -inf
        self._event_at = min(self._instants[0][0] if self._instants else inf, opens_at)

    def _to_come(self, instants: set[datetime | float], db_now: datetime, now: float) -> set[datetime | float]:
        """Return the instants that a claim at this moment has not reached."""
        reach = db_now + timedelta(seconds=self._ahead)
        return {
            instant for instant in instants if (instant > reach if isinstance(instant, datetime) else instant > now)
        }
