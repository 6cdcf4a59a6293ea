"""Expiry survey: finds the lanes in which something waits for longer than the age of its endpoint."""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain, islice
from typing import NamedTuple

from app.features.expiry.store import Bounds, shortest_ages_ms
from app.kernel.db import Database
from app.queue.claiming.claimable_queues import next_endpoints, next_queue
from app.queue.claiming.endpoint_partitions import MOST_STRETCHES, Passed, Stretch, next_lanes
from app.queue.claiming.partition import Lane
from app.scheduler.chore import Stopping


@dataclass(slots=True)
class Visit:
    """An endpoint's lanes in a shard of a queue: what of them is older than that, once it has come to their end."""

    left: Stretch
    age_ms: int
    lanes: list[Lane] = field(default_factory=list)


class Page(NamedTuple):
    """Endpoints in a shard of a paused queue: those behind a name."""

    queue: str
    shard: int
    after: str = ""


class ExpirySurvey:
    """Goes through all queues, round after round, and reads only the lanes of endpoints that bound an age there.

    In a paused queue it asks which endpoints have anything there, a page at a time, and only of these how old it may
    be: most that bound an age have nothing to do with the pause.

    It goes on where the last run ended. At each statement at most half of the visits are of those that did not come to
    their end by one, and one an endpoint while others have some: so very many lanes delay only their own endpoint.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queue = ""  # of which the visits were planned last
        self._pages: deque[Page] = deque()  # of that, if it is paused: those that are left to plan
        self._planned: deque[Visit] = deque()
        self._long: dict[str, deque[Visit]] = {}
        self._taken: list[Visit] = []  # of those, by the statement that is next

    def go_on(self, bounds: Bounds, shards: int, until: float, stopping: Stopping) -> Iterator[Visit]:
        """Yield the visits that end, until that time on time.monotonic() or the end of the round."""
        self._planned = _bounded(self._planned, bounds)
        if self._queue not in bounds.paused:
            self._pages.clear()
        bounded = {endpoint: _bounded(visits, bounds) for endpoint, visits in self._long.items()}
        self._long = {endpoint: visits for endpoint, visits in bounded.items() if visits}
        plan = self._plan(bounds, shards, until, stopping)
        while (bounds.held or bounds.paused) and not stopping():
            self._taken = self._take_long(MOST_STRETCHES // 2)
            visits = [*self._taken, *islice(plan, MOST_STRETCHES - len(self._taken))]
            visits += self._take_long(MOST_STRETCHES - len(visits))
            if not visits:
                break
            passed = next_lanes(self._database, [visit.left for visit in visits])
            yield from [visit for visit, one in zip(visits, passed, strict=True) if self._ends(visit, one)]
            if time.monotonic() >= until:
                break

    def _plan(self, bounds: Bounds, shards: int, until: float, stopping: Stopping) -> Iterator[Visit]:
        while True:
            while self._planned:
                yield self._planned.popleft()
            if not self._pages:
                if not self._plan_queue(bounds, shards):
                    return
                continue
            self._plan_page(self._pages[0])
            if not self._planned and (stopping() or time.monotonic() >= until):
                return  # there may be very many pages of which nothing bounds an age

    def _plan_queue(self, bounds: Bounds, shards: int) -> bool:
        if bounds.held:
            queue = next_queue(self._database, self._queue)
        else:
            queue = min((name for name in bounds.paused if name > self._queue), default=None)
        self._queue = queue or ""
        if queue is None:
            return False
        for shard in range(shards):
            if queue in bounds.paused:
                self._pages.append(Page(queue, shard))
            else:
                self._plan_visits(queue, shard, bounds.held)
        return True

    def _plan_page(self, page: Page) -> None:
        endpoints, has_more = next_endpoints(self._database, *page)
        ages_ms = shortest_ages_ms(self._database, endpoints) if endpoints else {}
        self._pages.popleft()
        if has_more:
            self._pages.appendleft(page._replace(after=endpoints[-1]))
        self._plan_visits(page.queue, page.shard, ages_ms)

    def _plan_visits(self, queue: str, shard: int, ages_ms: Mapping[str, int]) -> None:
        begun = {visit.left[:3] for visit in chain(self._taken, *self._long.values())}
        for endpoint, age_ms in ages_ms.items():
            if (queue, shard, endpoint) not in begun:
                self._planned.append(Visit(Stretch(queue, shard, endpoint), age_ms))

    def _take_long(self, most: int) -> list[Visit]:
        taken: list[Visit] = []
        while self._long and len(taken) < most:
            endpoint = next(iter(self._long))
            visits = self._long.pop(endpoint)
            taken.append(visits.popleft())
            if visits:
                self._long[endpoint] = visits  # behind the others
        return taken

    def _ends(self, visit: Visit, passed: Passed) -> bool:
        age = timedelta(milliseconds=visit.age_ms)
        visit.lanes += (due.lane for due in passed.lanes if passed.now is not None and passed.now - due.run_at > age)
        if passed.left is None:
            return True
        visit.left = passed.left
        self._long.setdefault(visit.left.endpoint, deque()).append(visit)
        return False


def _bounded(visits: deque[Visit], bounds: Bounds) -> deque[Visit]:
    return deque(visit for visit in visits if visit.left.queue in bounds.paused or visit.left.endpoint in bounds.held)
