"""Expirer: ends what has waited for longer than its retry policy's `max_age_ms`, at endpoints that make things wait."""

import time

from app.features.expiry import store as expiry_store
from app.features.expiry.expiry_survey import ExpirySurvey
from app.features.expiry.expiry_walk import ExpiryWalk
from app.kernel.errors import UnavailableError
from app.scheduler.chore import Chore, ChoreContext, Counts, counts_so_far

RUN_SECONDS = 4.0  # less than from one run to the next
MOST_FAILURES = 3  # of walks in a run: it may be the database


def chores(context: ChoreContext) -> list[Chore]:
    """Return the chores of expiry."""
    return [Chore("expire", 5, Expirer(context).expire)]


class Expirer:
    """The chore that ends what waits for too long.

    Each endpoint has its share of a run's time, and what it does not need is the others'. So one with very many lanes
    and ages, or with very much that waits, delays no other's end by more than that. What waits at endpoints that bound
    no age is not read, and what cannot be ended now, as somebody has locked it, keeps nothing of others.
    """

    def __init__(self, context: ChoreContext) -> None:
        self._database = context.database
        self._served = context.served
        self._stopping = context.stopping
        self._walks: dict[tuple[str, str], ExpiryWalk] = {}  # by endpoint, and the paused queue that alone holds it
        self._survey = ExpirySurvey(context.database)

    def expire(self) -> Counts:
        """Look through the lanes of endpoints that bound the age of their executions, where these may wait for long.

        Raises UnavailableError once it has gone on with the others.
        """
        began = time.monotonic()
        bounds = expiry_store.bounds(self._database)
        # What has ended with a pause is forgotten: in a queue that goes on nothing is too late.
        self._walks = {
            (endpoint, queue): walk
            for (endpoint, queue), walk in self._walks.items()
            if (queue in bounds.paused if queue else endpoint in bounds.held)
        }
        for visit in self._survey.go_on(bounds, self._served.count, began + RUN_SECONDS / 2, self._stopping):
            endpoint, queue = visit.left.endpoint, visit.left.queue
            walk = self._walks.setdefault((endpoint, "" if endpoint in bounds.held else queue), ExpiryWalk())
            walk.add(queue, visit.left.shard, visit.lanes, visit.age_ms)
        return self._go_on(began + RUN_SECONDS)

    def _go_on(self, over_at: float) -> Counts:
        under_way = [walk for walk in self._walks.values() if walk.lanes_left]
        under_way.sort(key=lambda walk: (walk.has_failed, walk.lanes_left))
        counts, failures = counts_so_far(), list[UnavailableError]()
        for number, walk in enumerate(under_way):
            now = time.monotonic()
            share = (over_at - now) / (len(under_way) - number)
            try:
                counts.update(expired=walk.go_on(self._database, now + share, self._stopping))
            except UnavailableError as error:
                failures.append(error)
                if len(failures) >= MOST_FAILURES:
                    break
        if failures:
            raise failures[0]
        return counts
