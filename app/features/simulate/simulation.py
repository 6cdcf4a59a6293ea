"""Simulation of repeating jobs over a period, with an optional outage of the schedulers. Pure.

It uses the rules of the scheduler: ticks of the timetable, and catch-up after an outage by `app.schedule.due_ticks`.
Only the duration of an execution is assumed.
"""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from app.kernel.formats import MICROSECOND
from app.schedule.cron import Schedule
from app.schedule.day import ticks_within
from app.schedule.due_ticks import DueJob, choose_ticks
from app.schedule.timetable import Timetable
from schema.states import Overlap

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
MAX_CAUGHT_UP = 100_000  # ticks of a job
# A job that starts more often is left out of the busiest instants: it starts all the time.
_SELDOM = timedelta(seconds=10)
# An execution sets the next tick at its end, and the scheduler polls once a second.
_SHORTEST = SECOND


class SimulatedPeriod(NamedTuple):
    """Simulated period, an outage of the schedulers in it, and the duration of an execution."""

    start: datetime
    end: datetime
    outage: tuple[datetime, datetime] | None = None
    takes: timedelta = timedelta(0)
    grace: timedelta = timedelta(minutes=1)


@dataclass(slots=True)
class SimulatedLoad:
    """Starts by hour and by second, and numbers of skipped ticks."""

    hours: Counter[datetime] = field(default_factory=Counter)
    seconds: Counter[datetime] = field(default_factory=Counter)
    made_up: int = 0
    skipped_catch_up: int = 0
    skipped_overlap: int = 0

    @property
    def starts(self) -> int:
        return self.hours.total()

    def add(self, other: "SimulatedLoad") -> None:
        self.hours.update(other.hours)
        self.seconds.update(other.seconds)
        self.made_up += other.made_up
        self.skipped_catch_up += other.skipped_catch_up
        self.skipped_overlap += other.skipped_overlap

    def counts(self) -> dict[str, int]:
        """Return the number of starts, and of caught-up and skipped ticks."""
        return {name: getattr(self, name) for name in ("starts", "made_up", "skipped_catch_up", "skipped_overlap")}

    def start(self, instant: datetime, number: int = 1) -> None:
        self.hours[instant.replace(minute=0, second=0, microsecond=0)] += number
        self.seconds[instant.replace(microsecond=0)] += number


def simulate(timetable: Timetable, period: SimulatedPeriod, next_tick: datetime | None = None) -> SimulatedLoad:
    """Simulate one job from its next tick, or from the first tick of the period.

    Raises InvalidCronError or InvalidRequestError for a timetable that cannot be read.
    """
    job = _Job(timetable, period)
    first = timetable.next_after(period.start - MICROSECOND) if next_tick is None else next_tick
    if first is None:
        return job.load
    first = max(first, period.start) if timetable.fixed_delay else first
    if first < period.start:
        first = job.catch_up(first, period.start) or period.end
    if period.outage is None:
        job.run(first, period.end)
        return job.load
    down, up = period.outage
    missed = job.run(first, down)
    if missed is not None and missed < up:
        missed = job.catch_up(missed, up)
    if missed is not None:
        job.run(missed, period.end)
    return job.load


@lru_cache(maxsize=4)
def _cron_ticks(cron: str, timezone: str, start: datetime, end: datetime) -> tuple[datetime, ...]:
    """List the ticks of a period; cached, since many jobs share a rule. A year of a rule may have 527,040 ticks."""
    return tuple(ticks_within(Schedule.parse(cron, timezone), start, end))


class _Job:
    """One simulated job, and the load that it has caused so far."""

    def __init__(self, timetable: Timetable, period: SimulatedPeriod) -> None:
        self.load = SimulatedLoad()
        self._timetable = timetable
        self._period = period
        self._every = timedelta(milliseconds=timetable.every_ms or 0)
        self._skips = timetable.overlap is Overlap.SKIP and period.takes > timedelta(0)

    def run(self, first: datetime, until: datetime) -> datetime | None:
        """Count the ticks from `first` on; returns the first tick at or after `until`."""
        table, load = self._timetable, self.load
        if first >= until:
            return first
        if table.every_ms is not None:
            return self._run_evenly(first, until)
        ticks = _cron_ticks(table.cron or "", table.timezone or "", self._period.start, self._period.end)
        number = bisect_left(ticks, first)
        idle = max(self._period.takes, _SHORTEST) if self._skips else MICROSECOND
        while number < len(ticks) and ticks[number] < until and not table.is_over(ticks[number]):
            load.start(ticks[number])
            free = bisect_left(ticks, ticks[number] + idle)
            load.skipped_overlap += sum(tick < until for tick in ticks[number + 1 : free])
            number = free
        # After the last tick, nothing of the period is left.
        return None if number >= len(ticks) or table.is_over(ticks[number]) else ticks[number]

    def catch_up(self, missed: datetime, up: datetime) -> datetime | None:
        """Start the caught-up ticks at the end of an outage; returns the next tick after it."""
        now = up - MICROSECOND  # a tick at the end of the outage is in time
        job = DueJob("", self._timetable, missed, busy=False, now=now, horizon=now)
        made_up = 0
        tick: datetime | None = missed
        while tick is not None and tick < up and made_up < MAX_CAUGHT_UP:
            advance = choose_ticks(job._replace(next_run_at=tick), MAX_CAUGHT_UP, self._period.grace, MAX_CAUGHT_UP)
            if advance is None:
                break
            made_up += len(advance.ticks)
            self.load.skipped_catch_up += advance.skipped_catch_up
            self.load.skipped_overlap += advance.skipped_overlap
            job = job._replace(busy=self._skips and bool(made_up))
            tick = advance.next_run_at
            if advance.waits:
                # The end of the execution sets the next tick.
                tick = up + max(self._period.takes + self._every, _SHORTEST)
        if made_up:
            self.load.start(up, made_up)
            self.load.made_up += made_up
        return tick

    def _run_evenly(self, first: datetime, until: datetime) -> datetime | None:
        """Count by arithmetic: an interval of 10 ms has 259 million ticks in a month."""
        table, load, interval = self._timetable, self.load, self._interval()
        end = until if table.ends_at is None else min(until, table.ends_at)
        runs = max(0, -((first - end) // interval))
        if not table.fixed_delay and interval > self._every:
            load.skipped_overlap += runs * (interval // self._every - 1)
        if interval >= _SELDOM:
            for number in range(runs):
                load.start(first + number * interval)
        else:
            hour = first.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
            while hour < end:
                bounds = max(hour, first), min(hour + HOUR, end)
                before, after = (max(0, -((first - at) // interval)) for at in bounds)
                load.hours[hour] += after - before
                hour += HOUR
        following = first + runs * interval
        return None if table.is_over(following) else following

    def _interval(self) -> timedelta:
        takes, every = self._period.takes, self._every
        if self._timetable.fixed_delay:
            return max(every + takes, _SHORTEST)
        if self._skips and takes > every:
            return -(-max(takes, _SHORTEST) // every) * every
        return every
