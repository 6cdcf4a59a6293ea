"""Expiry survey: finds the lanes in which something waits for longer than the age of its endpoint."""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain, islice, product

from app.db import Database
from app.executions.claiming.lane import Lane
from app.executions.claiming.of_endpoints import MOST_STRETCHES, Passed, Stretch, next_lanes
from app.executions.claiming.queues import next_queue
from app.executions.expiry import Bounds
from app.scheduler.chore import Stopping


@dataclass(slots=True)
class Visit:
    """An endpoint's lanes in a shard of a queue: what of them is overdue, once it has come to their end."""

    left: Stretch
    lanes: list[Lane] = field(default_factory=list)


class ExpirySurvey:
    """Goes through all queues, round after round, and reads only the lanes of endpoints that bound an age there.

    It goes on where the last run ended. At each statement at most half of the visits are of those that did not come to
    their end by one, and one an endpoint while others have some: so very many lanes delay only their own endpoint.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queue = ""  # of which the visits were planned last
        self._planned: deque[Visit] = deque()
        self._long: dict[str, deque[Visit]] = {}
        self._taken: list[Visit] = []  # of those, by the statement that is next

    def go_on(self, bounds: Bounds, shards: int, until: float, stopping: Stopping) -> Iterator[Visit]:
        """Yield the visits that end, until that time on time.monotonic() or the end of the round."""
        self._planned = _bounded(self._planned, bounds)
        bounded = {endpoint: _bounded(visits, bounds) for endpoint, visits in self._long.items()}
        self._long = {endpoint: visits for endpoint, visits in bounded.items() if visits}
        plan = self._plan(bounds, shards)
        while (bounds.held or bounds.all) and not stopping():
            self._taken = self._take_long(MOST_STRETCHES // 2)
            visits = [*self._taken, *islice(plan, MOST_STRETCHES - len(self._taken))]
            visits += self._take_long(MOST_STRETCHES - len(visits))
            if not visits:
                break
            passed = next_lanes(self._database, [visit.left for visit in visits])
            yield from [visit for visit, one in zip(visits, passed, strict=True) if self._ends(visit, one, bounds)]
            if time.monotonic() >= until:
                break

    def _plan(self, bounds: Bounds, shards: int) -> Iterator[Visit]:
        while True:
            while self._planned:
                yield self._planned.popleft()
            queue = next_queue(self._database, self._queue)
            self._queue = queue or ""
            if queue is None:
                return
            begun = {visit.left[:3] for visit in chain(self._taken, *self._long.values())}
            for place in product([queue], range(shards), bounds.of(queue)):
                if place not in begun:
                    self._planned.append(Visit(Stretch(*place)))

    def _take_long(self, most: int) -> list[Visit]:
        taken: list[Visit] = []
        while self._long and len(taken) < most:
            endpoint = next(iter(self._long))
            visits = self._long.pop(endpoint)
            taken.append(visits.popleft())
            if visits:
                self._long[endpoint] = visits  # behind the others
        return taken

    def _ends(self, visit: Visit, passed: Passed, bounds: Bounds) -> bool:
        age = timedelta(milliseconds=bounds.of(visit.left.queue)[visit.left.endpoint])
        visit.lanes += (due.lane for due in passed.lanes if passed.now is not None and passed.now - due.run_at > age)
        if passed.left is None:
            return True
        visit.left = passed.left
        self._long.setdefault(visit.left.endpoint, deque()).append(visit)
        return False


def _bounded(visits: deque[Visit], bounds: Bounds) -> deque[Visit]:
    return deque(visit for visit in visits if visit.left.endpoint in bounds.of(visit.left.queue))
