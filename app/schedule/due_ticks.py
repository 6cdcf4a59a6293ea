"""Due ticks of repeating jobs: chosen ticks become executions, other ticks are skipped. Pure, by the database's clock.

Ticks are chosen ahead of their instant. A tick before `now` was missed: no scheduler ran, or it lagged.
"""

from collections import deque
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from app.kernel.formats import MICROSECOND
from app.schedule.interval import Interval
from app.schedule.timetable import Timetable
from schema.states import CatchUp, Overlap

MAX_STEPS = 5000  # ticks of a cron job considered per statement; more than any max_catch_up
_NEVER = datetime.min.replace(tzinfo=UTC)


class DueJob(NamedTuple):
    """Repeating job with a tick at or before the horizon, which is the database's now plus the look-ahead.

    `busy`: executions of the job must not overlap, and an execution is unfinished.
    """

    job_id: str
    timetable: Timetable
    next_run_at: datetime
    busy: bool
    now: datetime
    horizon: datetime


class Advance(NamedTuple):
    """Chosen ticks of one job, in order, its next tick, and the numbers of skipped ticks.

    Without a next tick the job retires, unless it `waits` for the end of the execution.
    """

    job: DueJob
    ticks: tuple[datetime, ...]
    next_run_at: datetime | None
    skipped_catch_up: int = 0
    skipped_overlap: int = 0

    @property
    def waits(self) -> bool:
        """True if the end of the execution sets the next tick."""
        return self.job.timetable.fixed_delay and bool(self.ticks)

    @property
    def retires(self) -> bool:
        """True if the job has no tick left."""
        return self.next_run_at is None and not self.waits

    @property
    def late_ticks(self) -> int:
        """Number of chosen ticks that were missed."""
        return sum(tick <= self.job.now for tick in self.ticks)

    @property
    def exclusive(self) -> bool:
        """True if the tick may become an execution only while the job has no unfinished execution."""
        return self.job.timetable.overlap is Overlap.SKIP and bool(self.ticks)


def choose_ticks(job: DueJob, limit: int, grace: timedelta, late: int) -> Advance | None:
    """Choose at most `limit` ticks of a job up to its horizon, at most `late` of them missed; None: wait.

    Ticks that were missed by less than `grace` still run under `catch_up: none`. Raises InvalidCronError or
    InvalidRequestError for a timetable that cannot be read.
    """
    if job.next_run_at <= job.now and late <= 0:
        return None
    if job.timetable.fixed_delay:
        return _one(job)
    if job.timetable.overlap is Overlap.ALLOW:
        return _walk(job, limit, grace, late)
    if not job.busy:
        return _walk(job, 1, grace, late)
    if job.next_run_at > job.now:
        return None  # decided when the tick is due: until then the execution may end
    _, skipped, tick = _missed(job, 0, job.now)
    return Advance(job, (), tick, skipped_overlap=skipped)


def count_missed(job: DueJob) -> int:
    """Return the number of ticks up to now that no scheduler has chosen; of a cron job at most MAX_STEPS."""
    if job.timetable.fixed_delay:
        return int(job.next_run_at <= job.now and not job.timetable.is_over(job.next_run_at))
    return _missed(job, 0, job.now)[1]


def makes_up_for_all(job: DueJob, grace: timedelta) -> bool:
    """Return whether a job is late by more than `grace`, and all its missed ticks may run concurrently."""
    table = job.timetable
    follows_none = not table.fixed_delay and table.overlap is Overlap.ALLOW
    return job.next_run_at < job.now - grace and follows_none and table.catch_up is CatchUp.ALL


def may_wait(job: DueJob, more: int) -> bool:
    """Return whether no missed tick of a job that `makes_up_for_all` is skipped after `more` missed ticks.

    Raises like `choose_ticks`.
    """
    most = job.timetable.max_catch_up
    if most is None:
        return True
    kept, skipped, _ = _missed(job, most, job.now)
    return not skipped and len(kept) + more <= most


def _one(job: DueJob) -> Advance:
    """Choose the only tick until the next execution ends; it never counts as missed."""
    if job.timetable.is_over(job.next_run_at):
        return Advance(job, (), None)
    if job.timetable.overlap is Overlap.SKIP and job.busy:
        # The unfinished execution was started manually (run now), so its end does not start the interval.
        return Advance(job, (), job.now + timedelta(milliseconds=job.timetable.every_ms or 0), skipped_overlap=1)
    return Advance(job, (job.next_run_at,), None)


def _walk(job: DueJob, limit: int, grace: timedelta, late: int) -> Advance:
    most, until = _policy(job, grace)
    chosen, skipped, tick = _missed(job, most, until)
    if tick is not None and tick <= until:
        # More missed ticks than one statement considers: later ticks may displace these, so none is chosen yet.
        return Advance(job, (), chosen[0] if chosen else tick, skipped_catch_up=skipped)
    while tick is not None and tick <= job.horizon and len(chosen) < limit:
        chosen.append(tick)
        tick = job.timetable.following(tick)
    # Ticks stay in order: unless all missed ticks are chosen, future ticks wait too.
    size = late if sum(tick <= job.now for tick in chosen) > late else limit
    rest = chosen[size] if len(chosen) > size else tick
    return Advance(job, tuple(chosen[:size]), rest, skipped_catch_up=skipped)


def _missed(job: DueJob, most: int, until: datetime) -> tuple[list[datetime], int, datetime | None]:
    """Return the missed ticks that run (the latest `most`), the number of skipped ticks, and the tick after them."""
    first, ticks = job.next_run_at, job.timetable.ticks()
    if job.timetable.is_over(first):
        return [], 0, None
    if first > until:
        return [], 0, first
    if isinstance(ticks, Interval):
        return _missed_of_interval(job, ticks, most, until)
    kept: deque[datetime] = deque(maxlen=most)
    tick: datetime | None = first
    steps = 0
    while tick is not None and tick <= until and steps < MAX_STEPS:
        kept.append(tick)
        steps += 1
        tick = job.timetable.following(tick)
    return list(kept), steps - len(kept), tick


def _missed_of_interval(
    job: DueJob, ticks: Interval, most: int, until: datetime
) -> tuple[list[datetime], int, datetime | None]:
    """Compute `_missed` without iterating: an interval of 10 ms misses millions of ticks in a day."""
    first, ends_at = job.next_run_at, job.timetable.ends_at
    last = until if ends_at is None else min(until, ends_at - MICROSECOND)
    numbers = ticks.numbers(first, last)
    kept = [ticks.tick(number) for number in numbers[max(0, len(numbers) - most) :]]
    if len(kept) < most:
        kept.insert(0, first)
    latest = ticks.tick(numbers[-1]) if numbers else first
    return kept, len(numbers) + 1 - len(kept), job.timetable.following(latest)


def _policy(job: DueJob, grace: timedelta) -> tuple[int, datetime]:
    """Return the number of missed ticks that run, and the instant up to which a tick counts as missed."""
    table = job.timetable
    if table.catch_up is CatchUp.NONE:
        return 0, job.now - grace
    if table.catch_up is CatchUp.LATEST:
        return 1, job.now
    return (0, _NEVER) if table.max_catch_up is None else (table.max_catch_up, job.now)
