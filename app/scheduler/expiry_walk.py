"""Expiry walk: one endpoint's lanes, read for what waits too long, as far as the time of each run goes."""

import time
from collections import deque
from collections.abc import Sequence

from app.db import Database
from app.executions import expiry
from app.executions.claiming.lane import Lane
from app.executions.expiry import Mark
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
        self._left: deque[Place] = deque()
        self._shortest_ms = 0
        self._age_ms = 0  # by this one, or the next longer, the first lane is read now
        self._marks: dict[Place, dict[int, Mark]] = {}
        self._whole_at = 0.0  # on time.monotonic()

    @property
    def lanes_left(self) -> int:
        """How many lanes it has not come to the end of."""
        return len(self._left)

    def begin(self, lanes: Sequence[Place], shortest_ms: int) -> None:
        """Begin to walk through the lanes with something older than that, unless the last walk has not ended."""
        self._shortest_ms = shortest_ms
        if self._left:
            return
        self._left.extend(lanes)
        if time.monotonic() >= self._whole_at:
            self._marks.clear()
            self._whole_at = time.monotonic() + WHOLE_SECONDS
        self._marks = {lane: self._marks[lane] for lane in lanes if lane in self._marks}

    def go_on(self, database: Database, until: float, stopping: Stopping) -> int:
        """End what waits too long, a page at least, until that time on time.monotonic(); returns how many."""
        ended = 0
        while self._left and not stopping():
            ended += self._read_page(database)
            if time.monotonic() >= until:
                break
        return ended

    def _read_page(self, database: Database) -> int:
        queue, lane = place = self._left[0]
        marks = self._marks.setdefault(place, {})
        marks.setdefault(self._shortest_ms, expiry.START)
        age_ms = min(one for one in marks if one >= self._age_ms)
        before = marks[age_ms]
        done = expiry.expire(database, queue, lane, max_age_ms=age_ms, limit=BATCH, after=before)
        marks[age_ms] = done.reached
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
            self._age_ms = 0
            self._left.popleft()
            if len(self._marks) > MOST_LANES:
                del self._marks[place]
