"""Expiry walk: one endpoint's lanes, read for what waits too long, as far as the time of each run goes."""

import time
from collections import deque
from collections.abc import Sequence

from app.features.expiry import store as expiry_store
from app.features.expiry.store import Mark
from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.queue.claiming.partition import Lane
from app.scheduler.chore import BATCH, Stopping

MOST_AGES = 16  # that a lane is read by
MOST_LANES = 1_000  # of which it is known how far they were read
WHOLE_SECONDS = 300.0  # after which each lane is read from its beginning again

Place = tuple[str, Lane]  # with its queue


class ExpiryWalk:
    """Goes from lane to lane of one endpoint, each read by the ages of what waits in it.

    The shortest age of the endpoint comes first, and what it lets pass tells the others: so versions of which nothing
    waits cost nothing. What was allowed to be older stays allowed: by each age a lane is read on from where the last
    walk came to. What comes behind that, as it was claimed and given back to its old place, is found later.
    """

    def __init__(self) -> None:
        self.has_failed = False  # the last time
        self._left: deque[Place] = deque()
        self._waiting: set[Place] = set()  # those of `_left`
        self._shortest_ms = 0
        self._age_ms = 0  # by this one, or the next longer, the first lane is read now
        self._marks: dict[Place, dict[int, Mark]] = {}
        self._again: dict[int, Mark] = {}  # by age, where the next walk begins as somebody had a row that is late
        self._whole_at = 0.0  # on time.monotonic()

    @property
    def lanes_left(self) -> int:
        """How many lanes it has not come to the end of."""
        return len(self._left)

    def add(self, queue: str, shard: int, lanes: Sequence[Lane], shortest_ms: int) -> None:
        """Walk through these lanes as well: all of a shard of a queue with something that is older than that."""
        self._shortest_ms = shortest_ms
        if not self._left:
            self._forget_in_time()
        places: dict[Place, None] = {(queue, lane): None for lane in lanes}
        self._marks = {
            place: marks
            for place, marks in self._marks.items()
            if place in places or place in self._waiting or (place[0], place[1].shard) != (queue, shard)
        }
        self._left.extend(place for place in places if place not in self._waiting)
        self._waiting.update(places)

    def go_on(self, database: Database, until: float, stopping: Stopping) -> int:
        """End what waits too long, a page at least, until that time on time.monotonic(); returns how many.

        Raises UnavailableError, and goes on with another lane the next time.
        """
        ended = 0
        try:
            while self._left and not stopping():
                ended += self._read_page(database)
                if time.monotonic() >= until:
                    break
        except UnavailableError:
            self.has_failed = True
            self._leave_lane()
            self._left.rotate(-1)
            raise
        self.has_failed = False
        return ended

    def _leave_lane(self) -> None:
        marks = self._marks.get(self._left[0], {})
        marks |= {age_ms: mark for age_ms, mark in self._again.items() if age_ms in marks}
        self._again.clear()
        self._age_ms = 0

    def _forget_in_time(self) -> None:
        if time.monotonic() >= self._whole_at:
            self._marks.clear()
            self._whole_at = time.monotonic() + WHOLE_SECONDS

    def _read_page(self, database: Database) -> int:
        queue, lane = place = self._left[0]
        marks = self._marks.setdefault(place, {})
        marks.setdefault(self._shortest_ms, expiry_store.START)
        age_ms = min(one for one in marks if one >= self._age_ms)
        before = marks[age_ms]
        done = expiry_store.expire(database, queue, lane, max_age_ms=age_ms, limit=BATCH, after=before)
        marks[age_ms] = done.reached
        if done.has_missed:
            self._again.setdefault(age_ms, before)
        for one in done.ages_ms:
            if one > age_ms:
                marks.setdefault(one, before)
        # The longest ages are kept. What may wait less long than all of them is found by the least of them, or by the
        # shortest once the lane is read from its beginning.
        for one in sorted(marks)[1 : 1 - MOST_AGES]:
            del marks[one]
        self._age_ms = age_ms
        if done.seen < BATCH:
            self._end_pass(place, marks)
        return done.ended

    def _end_pass(self, place: Place, marks: dict[int, Mark]) -> None:
        self._age_ms += 1
        if self._age_ms > max(marks):
            self._leave_lane()
            self._left.popleft()
            self._waiting.remove(place)
            if len(self._marks) > MOST_LANES:
                del self._marks[place]
            self._forget_in_time()
