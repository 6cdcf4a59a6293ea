"""Expirer: ends what has waited for longer than its retry policy's `max_age_ms`, at endpoints that make things wait."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping

from app.db import Database
from app.executions import expiry
from app.executions.claiming.queues import claimable_queues
from app.executions.claiming.sweep import Sweep
from app.scheduler.chore import Counts, Stopping
from app.scheduler.expiry_walk import ExpiryWalk, Place

MOST_QUEUES = 1_000
RUN_SECONDS = 4.0  # less than from one run to the next


class Expirer:
    """The chore that ends what waits for too long; `shards` returns how many there are.

    Each endpoint has its share of a run's time, and what it does not need is the others'. So one with very many lanes
    and ages, or with very much that waits, delays no other's end by more than that.
    """

    def __init__(self, database: Database, *, shards: Callable[[], int], stopping: Stopping) -> None:
        self._database = database
        self._shards = shards
        self._stopping = stopping
        self._walks: dict[str, ExpiryWalk] = {}
        self._sweeps: dict[str, Sweep] = {}

    def expire(self) -> Counts:
        """Look through all lanes, where an endpoint with rules bounds the age of its executions."""
        ages_ms = expiry.shortest_ages(self._database)
        self._walks = {endpoint: self._walks.get(endpoint) or ExpiryWalk() for endpoint in ages_ms}
        for endpoint, lanes in self._overdue(ages_ms).items():
            self._walks[endpoint].begin(lanes, ages_ms[endpoint])
        under_way = sorted((walk for walk in self._walks.values() if walk.lanes_left), key=lambda it: it.lanes_left)
        counts, over_at = Counts(), time.monotonic() + RUN_SECONDS
        for number, walk in enumerate(under_way):
            now = time.monotonic()
            share = (over_at - now) / (len(under_way) - number)
            counts.update(expired=walk.go_on(self._database, now + share, self._stopping))
        return counts

    def _overdue(self, ages_ms: Mapping[str, int]) -> Mapping[str, list[Place]]:
        lanes, sweeps = defaultdict[str, list[Place]](list), dict[str, Sweep]()
        for queue in claimable_queues(self._database, MOST_QUEUES) if ages_ms else ():
            sweep = sweeps[queue] = Sweep(self._shards(), self._sweeps.get(queue))
            for lane in expiry.overdue(self._database, queue, sweep, ages_ms, self._stopping):
                lanes[lane.endpoint].append((queue, lane))
        self._sweeps = sweeps
        return lanes
