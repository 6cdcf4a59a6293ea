"""Pace of catching up: how many late ticks of each job become executions in one pass over the due jobs. Pure."""

import math
from collections import Counter
from datetime import datetime

from app.schedule.due_ticks import Advance, DueJob

LATE_PER_PASS = 500


class CatchUpPace:
    """What is left of one pass, so that an outage's backlog never comes as one burst before fresh work.

    The late jobs of a page share what is left of LATE_PER_PASS. However many there are, each may take one tick, and
    twice as many as fall due in the time of a pass: else a job with a short interval would never catch up.
    """

    def __init__(self, pass_seconds: float) -> None:
        self._pass_ms = pass_seconds * 1000
        self._left = LATE_PER_PASS
        self._taken: Counter[str] = Counter()
        self._next_ticks: dict[str, datetime] = {}

    def portion(self, job: DueJob, jobs: int) -> int:
        """Return how many late ticks a job, one of so many in its page, may still take; not positive when none."""
        return max(self.least(job), self._left // max(1, jobs)) - self._taken[job.job_id]

    def least(self, job: DueJob) -> int:
        """Return how many late ticks a job may take whatever others take: more than fall due until the next pass."""
        every_ms = job.timetable.every_ms
        return 1 if every_ms is None else max(1, math.ceil(2 * self._pass_ms / every_ms))

    def note(self, job: DueJob, advance: Advance | None) -> None:
        """Count the late ticks that a job takes, and keep its next tick after them."""
        late = 0 if advance is None else _late_ticks(advance)
        self._taken[job.job_id] += late
        self._left -= late
        following = job.next_run_at if advance is None else advance.next_run_at
        if following is None:
            self._next_ticks.pop(job.job_id, None)
        else:
            self._next_ticks[job.job_id] = following

    def put_back(self, advance: Advance) -> None:
        """Undo `note` for a job that could not take its ticks, such as one whose row is locked."""
        late = _late_ticks(advance)
        self._taken[advance.job.job_id] -= late
        self._left += late
        self._next_ticks[advance.job.job_id] = advance.job.next_run_at

    def goes_on(self, advance: Advance, jobs: int) -> bool:
        """Return whether a job has more ticks in this pass than fitted in its statement."""
        job, following = advance.job, advance.next_run_at
        if following is None or following > job.horizon:
            return False
        return following > job.now or self.portion(job, jobs) > 0

    def reached(self, now: datetime) -> datetime:
        """Return the instant before which no job has a tick left, at most `now`."""
        return min([now, *self._next_ticks.values()])


def _late_ticks(advance: Advance) -> int:
    return sum(tick <= advance.job.now for tick in advance.ticks)
