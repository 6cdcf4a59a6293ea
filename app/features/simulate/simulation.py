"""Simulation of repeating jobs over a period, with an optional outage of the schedulers. Pure.

It uses the rules of the scheduler: ticks of the timetable, and catch-up after an outage by `app.schedule.due_ticks`.
Only the duration of an execution is assumed.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from app.kernel.formats import MICROSECOND
from app.schedule.cron import Schedule
from app.schedule.due_ticks import DueJob, choose_ticks
from app.schedule.timetable import Timetable
from schema.states import EndpointType, Overlap

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
MOST_MADE_UP = 100_000  # of a job
# A job that starts more often is left out of the busiest instants: it starts all the time.
_SELDOM = timedelta(seconds=10)
# An execution sets the next tick at its end, and the scheduler polls once a second.
_SHORTEST = SECOND


@dataclass(frozen=True, slots=True)
class SimulatedPeriod:
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
        """Add the load of another job."""
        self.hours += other.hours
        self.seconds += other.seconds
        self.made_up += other.made_up
        self.skipped_catch_up += other.skipped_catch_up
        self.skipped_overlap += other.skipped_overlap

    def start(self, instant: datetime, number: int = 1) -> None:
        """Count executions that start at an instant."""
        self.hours[instant.replace(minute=0, second=0, microsecond=0)] += number
        self.seconds[instant.replace(microsecond=0)] += number


def simulate(timetable: Timetable, stretch: SimulatedPeriod, next_tick: datetime | None = None) -> SimulatedLoad:
    """Simulate one job from its next tick, or from the first tick of the period.

    Raises InvalidCronError or InvalidRequestError for a timetable that cannot be read.
    """
    load = SimulatedLoad()
    first = next_tick if next_tick is not None else timetable.next_after(stretch.start - MICROSECOND)
    if first is None:
        return load
    first = max(first, stretch.start) if timetable.fixed_delay else first
    if first < stretch.start:
        first = _make_up(timetable, replace(stretch, outage=(first, stretch.start)), first, load) or stretch.end
    if stretch.outage is None:
        _run(timetable, stretch, first, stretch.end, load)
        return load
    down, up = stretch.outage
    missed = _run(timetable, stretch, first, down, load)
    if missed is not None and missed < up:
        missed = _make_up(timetable, stretch, missed, load)
    if missed is not None:
        _run(timetable, stretch, missed, stretch.end, load)
    return load


def _run(
    timetable: Timetable, stretch: SimulatedPeriod, first: datetime, until: datetime, load: SimulatedLoad
) -> datetime | None:
    """Count the ticks from `first` on; returns the first tick at or after `until`."""
    if first >= until:
        return first
    period = _period(timetable, stretch)
    if period is not None:
        return _run_evenly(timetable, first, until, period, load)
    ticks = _cron_ticks(timetable.cron or "", timetable.timezone or "", stretch.start, stretch.end)
    number = bisect_left(ticks, first)
    idle = max(stretch.takes, _SHORTEST) if _skips(timetable, stretch) else MICROSECOND
    while number < len(ticks) and ticks[number] < until and not timetable.is_over(ticks[number]):
        load.start(ticks[number])
        free = bisect_left(ticks, ticks[number] + idle)
        load.skipped_overlap += sum(tick < until for tick in ticks[number + 1 : free])
        number = free
    # After the last tick, nothing of the period is left.
    return None if number >= len(ticks) or timetable.is_over(ticks[number]) else ticks[number]


@lru_cache(maxsize=64)
def _cron_ticks(cron: str, timezone: str, start: datetime, end: datetime) -> tuple[datetime, ...]:
    """List the ticks of a period; cached, since many jobs share a rule and a tick takes 0.1 ms to compute."""
    schedule, ticks = Schedule.parse(cron, timezone), list[datetime]()
    tick = schedule.next_after(start - MICROSECOND)
    while tick is not None and tick < end:
        ticks.append(tick)
        tick = schedule.next_after(tick)
    return tuple(ticks)


def _skips(timetable: Timetable, stretch: SimulatedPeriod) -> bool:
    return timetable.overlap is Overlap.SKIP and stretch.takes > timedelta(0)


def _period(timetable: Timetable, stretch: SimulatedPeriod) -> timedelta | None:
    """Return the interval between starts if it is constant, else None."""
    if timetable.every_ms is None:
        return None
    every = timedelta(milliseconds=timetable.every_ms)
    if timetable.fixed_delay:
        return max(every + stretch.takes, _SHORTEST)
    if _skips(timetable, stretch) and stretch.takes > every:
        return -(-max(stretch.takes, _SHORTEST) // every) * every
    return every


def _run_evenly(
    timetable: Timetable, first: datetime, until: datetime, period: timedelta, load: SimulatedLoad
) -> datetime | None:
    """Count by arithmetic: an interval of 10 ms has 259 million ticks in a month."""
    end = until if timetable.ends_at is None else min(until, timetable.ends_at)
    runs = max(0, -((first - end) // period))
    every = timedelta(milliseconds=timetable.every_ms or 0)
    if not timetable.fixed_delay and period > every:
        load.skipped_overlap += runs * (period // every - 1)
    if period >= _SELDOM:
        for number in range(runs):
            load.start(first + number * period)
    else:
        for hour in _hours(first, end):
            before, after = (max(0, -((first - at) // period)) for at in (max(hour, first), min(hour + HOUR, end)))
            load.hours[hour] += after - before
    following = first + runs * period
    return None if timetable.is_over(following) else following


def _make_up(timetable: Timetable, stretch: SimulatedPeriod, missed: datetime, load: SimulatedLoad) -> datetime | None:
    """Start the caught-up ticks at the end of the outage; returns the next tick after it."""
    if stretch.outage is None:
        return missed
    up = stretch.outage[1]
    # A tick at that instant is in time.
    job = DueJob("", EndpointType.HTTP, timetable, missed, busy=False, now=up - MICROSECOND, horizon=up - MICROSECOND)
    made_up = 0
    tick: datetime | None = missed
    while tick is not None and tick < up and made_up < MOST_MADE_UP:
        advance = choose_ticks(replace(job, next_run_at=tick), MOST_MADE_UP, stretch.grace, MOST_MADE_UP)
        if advance is None:
            break
        made_up += len(advance.ticks)
        load.skipped_catch_up += advance.skipped_catch_up
        load.skipped_overlap += advance.skipped_overlap
        job = replace(job, busy=_skips(timetable, stretch) and bool(made_up))
        tick = advance.next_run_at
        if advance.waits:
            # Its end sets the next one.
            tick = up + max(stretch.takes + timedelta(milliseconds=timetable.every_ms or 0), _SHORTEST)
    if made_up:
        load.start(up, made_up)
        load.made_up += made_up
    return tick


def _hours(first: datetime, end: datetime) -> Iterator[datetime]:
    hour = first.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    while hour < end:
        yield hour
        hour += HOUR
