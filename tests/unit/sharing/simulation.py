"""One worker process in simulated time: the real partitions and shares, with endpoints of given latencies."""

import heapq
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any

from app.queue.claiming.partition import Partition, PartitionQuota
from app.queue.executions.execution_model import Claim, ClaimKey
from brokers.inbox import Inboxes
from brokers.sharing.fair_shares import Shares
from brokers.sharing.partitions import KnownPartitions
from tests.unit.sharing.known_partitions import next_at, wanting

START = datetime(2026, 1, 1, tzinfo=UTC)
CLAIM_SECONDS = 0.004
HANGS_SECONDS = 30.0


@dataclass(slots=True)
class Endpoint:
    """Endpoint with its arrival rate per second, its latency, and optionally an endless backlog."""

    name: str
    takes: Callable[[], float]
    rate: float = 0.0
    has_backlog: bool = False
    priority: int = 128
    waiting: deque[float] = field(default_factory=deque)

    @property
    def partition(self) -> Partition:
        return Partition(0, self.name, "", self.priority)


@dataclass(slots=True)
class Running:
    """A claim in flight."""

    claim: Claim
    started_at: float
    held_until: float = inf


def quick(number: int, seed: random.Random, **more: Any) -> Endpoint:
    return Endpoint(f"quick-{number}", lambda: seed.uniform(0.004, 0.012), **more)


def hanging(number: int) -> Endpoint:
    return Endpoint(f"hanging-{number}", lambda: HANGS_SECONDS, has_backlog=True)


class Simulation:
    """Simulates endpoints; `late` and `served` count the starts after `counted_from`."""

    def __init__(self, endpoints: Iterable[Endpoint], *, capacity: int = 200, seed: int = 1) -> None:
        self.now = 0.0
        self.random = random.Random(seed)
        self.endpoints = {endpoint.name: endpoint for endpoint in endpoints}
        self.inboxes = Inboxes()
        self.inbox = self.inboxes.open("http")
        self.shares = Shares(capacity, self.inboxes, clock=lambda: self.now)
        self.partitions = KnownPartitions(1, ahead=0.0)
        self.late: dict[str, list[float]] = {}
        self.served: Counter[str] = Counter()
        self.starts: list[str] = []  # endpoint names in the order of their starts
        self.most_held = 0
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._polls_at = inf
        self.counted_from = 0.0
        for endpoint in self.endpoints.values():
            self._arrive_later(endpoint)
            if endpoint.has_backlog:
                self.partitions.noticed(endpoint.partition, self.now)
        self._poll_at(self.now)

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, happen = heapq.heappop(self._events)
            happen()
            if self.inbox.has_room:
                self.inbox.has_room = False
                self._poll_at(self.now)
            self.most_held = max(self.most_held, sum(self.shares.slots.values()))

    def held(self, prefix: str) -> int:
        return sum(slots for name, slots in self.shares.slots.items() if name.startswith(prefix))

    def lateness(self, prefix: str, share: float) -> float:
        late = sorted(itertools.chain(*(late for name, late in self.late.items() if name.startswith(prefix))))
        return late[int(len(late) * share)]

    def served_by(self, prefix: str) -> int:
        return sum(count for name, count in self.served.items() if name.startswith(prefix))

    def _at(self, instant: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._events, (instant, next(self._order), happen))

    def _arrive_later(self, endpoint: Endpoint) -> None:
        if endpoint.rate:
            self._at(self.now + self.random.expovariate(endpoint.rate), lambda: self.arrive(endpoint))

    def arrive(self, endpoint: Endpoint) -> None:
        """Add an execution of an endpoint now, and schedule the next at its rate."""
        endpoint.waiting.append(self.now)
        self.partitions.noticed(endpoint.partition, self.now)
        self._poll_at(self.now)
        self._arrive_later(endpoint)

    def _poll_at(self, instant: float) -> None:
        if instant < self._polls_at:
            self._polls_at = instant
            self._at(instant, lambda: self._poll(instant))

    def _poll(self, instant: float) -> None:
        if instant != self._polls_at:
            return  # an earlier poll replaced this poll
        self.shares.want("http", wanting(self.partitions, self.now))
        wanted = self.partitions.pick(self.now, lambda partition, most: self.shares.reserve(partition.endpoint, most))
        self._polls_at = inf
        if wanted:
            self._polls_at = -inf  # no poll until the answer has arrived
            asked_at = self.now
            self._at(self.now + CLAIM_SECONDS, lambda: self._answer(wanted, asked_at))
        elif next_at(self.partitions) < inf:
            self._poll_at(max(self.now, next_at(self.partitions)))

    def _answer(self, wanted: list[PartitionQuota], asked_at: float) -> None:
        found, attempts, reserved = {}, [], Counter[str]()
        db_now = START + timedelta(seconds=self.now)
        for partition, quota, _ in sorted(wanted, key=lambda claim: -claim.partition.priority):
            endpoint = self.endpoints[partition.endpoint]
            count = quota if endpoint.has_backlog else min(quota, len(endpoint.waiting))
            found[partition] = count, db_now
            reserved[partition.endpoint] += quota
            attempts += [self._start(endpoint) for _ in range(count)]
        self.shares.settle(reserved, attempts, asked_at)
        self.partitions.claimed(wanted, found, db_now, self.now)
        self._polls_at = inf
        self._poll_at(self.now)

    def _start(self, endpoint: Endpoint) -> Running:
        arrived = endpoint.waiting.popleft() if endpoint.waiting else self.now
        key = ClaimKey(f"exec_{next(self._order)}", 1, START)
        self.starts.append(endpoint.name)
        if self.now >= self.counted_from:
            self.served[endpoint.name] += 1
            if not endpoint.has_backlog:
                self.late.setdefault(endpoint.name, []).append(self.now - arrived)
        took = endpoint.takes()
        self._at(self.now + took, lambda: self.shares.remove(key, took))
        return Running(claim_of(key, endpoint), self.now)


def claim_of(key: ClaimKey, endpoint: Endpoint) -> Claim:
    return Claim(
        key=key,
        execution_id=key.execution_id,
        job_id="job",
        endpoint=endpoint.name,
        endpoint_version=1,
        endpoint_type="HTTP",
        worker_id="worker",
        attempt=1,
        max_attempts=1,
        config_revision=0,
        scheduled_at=START,
        claimed_at=START,
        due_in_seconds=0.0,
        late_seconds=0.0,
        claimed_here=0.0,
    )
