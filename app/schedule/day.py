"""Starts of a timetable on one day, as the bits of an integer: bit n is the minute n of the day.

A step of croniter takes 0.1 ms, too long for a thousand schedules. While a zone keeps its offset, the starts of a cron
schedule are the matching minutes of a local date, shifted to the day. Hours with a clock change are walked tick by
tick.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from app.kernel.formats import MICROSECOND
from app.schedule.cron import Schedule
from app.schedule.interval import Interval
from app.schedule.timetable import Timetable
from app.schedule.zones import change_between, time_zone

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
_MINUTE_US = MINUTE // MICROSECOND


class Day(NamedTuple):
    """A local date, from its first instant to the first instant of the next date."""

    local: date
    timezone: str
    start: datetime
    end: datetime

    @classmethod
    def of(cls, day: date, timezone: str) -> "Day":
        """Return a date of a time zone; raises ZoneInfoNotFoundError."""
        zone = time_zone(timezone)
        return cls(day, timezone, _first_instant(day, zone), _first_instant(day + timedelta(days=1), zone))

    @property
    def minutes(self) -> int:
        """Length; not 1,440 if the clock changes, and 0 for a date that the zone skipped."""
        return -((self.start - self.end) // MINUTE)

    def hours(self) -> Iterator[tuple[datetime, datetime]]:
        """Yield the start and the end of each hour; the last hour may be shorter."""
        start = self.start
        while start < self.end:
            end = min(start + HOUR, self.end)
            yield start, end
            start = end

    def at(self, minute: int) -> datetime:
        """Return the begin of a minute of the day, in the zone."""
        return (self.start + minute * MINUTE).astimezone(time_zone(self.timezone))

    def minute(self, instant: datetime) -> int:
        """Return the minute of the day of an instant; negative before the day."""
        return (instant - self.start) // MINUTE


class DayStarts(NamedTuple):
    """Starts of one timetable on a day.

    Attributes:
        minutes: Bit n is set if a start lies in the minute n of the day.
        starts: Number of starts. It exceeds the number of bits for an interval of less than a minute.
        of_minute: Starts of each minute of such an interval; None if each bit stands for one start.
    """

    minutes: int = 0
    starts: int = 0
    of_minute: tuple[int, ...] | None = None

    @classmethod
    def once_a_minute(cls, minutes: int) -> "DayStarts":
        return cls(minutes, minutes.bit_count())

    def in_minute(self, minute: int) -> int:
        return (self.minutes >> minute) & 1 if self.of_minute is None else self.of_minute[minute]

    def starts_from(self, minute: int) -> int:
        """Return the number of starts in a minute of the day and later."""
        return (self.minutes >> minute).bit_count() if self.of_minute is None else sum(self.of_minute[minute:])

    @property
    def first(self) -> int | None:
        """Return the first minute with a start."""
        return (self.minutes & -self.minutes).bit_length() - 1 if self.minutes else None

    @property
    def last(self) -> int | None:
        """Return the last minute with a start."""
        return self.minutes.bit_length() - 1 if self.minutes else None


def runs_of(minutes: int) -> list[tuple[int, int, int]]:
    """Write bits as runs at equal distances, in order: first bit, last bit, step."""
    found: list[tuple[int, int, int]] = []
    places = [place for place, bit in enumerate(reversed(f"{minutes:b}")) if bit == "1"]
    at = 0
    while at < len(places):
        end, step = at, places[at + 1] - places[at] if at + 1 < len(places) else 1
        while end + 1 < len(places) and places[end + 1] - places[end] == step:
            end += 1
        # Two bits are no series: a series may begin at the second.
        end, step = (end, step) if end - at > 1 or end + 1 == len(places) else (at, 1)
        found.append((places[at], places[end], step))
        at = end + 1
    return found


def starts_on(day: Day, timetable: Timetable, *, after: datetime | None = None) -> DayStarts:
    """Return the starts of a timetable on a day: its ticks from `starts_at` on, later than `after`, before `ends_at`.

    A fixed delay counts as an interval, as if executions took no time. Raises InvalidCronError or InvalidRequestError
    for a timetable that cannot be read.
    """
    begin, end = max(day.start, timetable.starts_at), day.end
    if after is not None:
        begin = max(begin, after + MICROSECOND)
    if timetable.ends_at is not None:
        end = min(end, timetable.ends_at)
    ticks = timetable.ticks()
    if begin >= end:
        return DayStarts()
    if isinstance(ticks, Interval):
        return _of_interval(day, ticks, begin, end)
    whole = _of_cron(ticks, day)
    if begin == day.start and end == day.end:
        return whole
    # Ticks of a cron schedule lie at the begin of a minute.
    first, last = (-((day.start - instant) // MINUTE) for instant in (begin, end))
    return DayStarts.once_a_minute(whole.minutes & (_ones(last) ^ _ones(first)))


def ticks_within(schedule: Schedule, start: datetime, end: datetime) -> Iterator[datetime]:
    """Iterate over the ticks of a cron schedule from `start` on and before `end`."""
    local = start.astimezone(UTC).date()
    while (day := Day.of(local, "UTC")).start < end:
        for first, last, step in runs_of(_of_cron(schedule, day).minutes):
            ticks = (day.start + minute * MINUTE for minute in range(first, last + 1, step))
            yield from (tick for tick in ticks if start <= tick < end)
        local += timedelta(days=1)


def _of_interval(day: Day, interval: Interval, begin: datetime, end: datetime) -> DayStarts:
    numbers = interval.numbers(begin - MICROSECOND, end - MICROSECOND)
    if not numbers:
        return DayStarts()
    at, step, count = (interval.tick(numbers[0]) - day.start) // MICROSECOND, interval.every_ms * 1000, len(numbers)
    if step < _MINUTE_US:
        return _band(day.minutes, at, step, count)
    if step % _MINUTE_US == 0:
        return DayStarts.once_a_minute(_every(step // _MINUTE_US, count) << at // _MINUTE_US)
    bits = 0
    for instant in range(at, at + step * count, step):
        bits |= 1 << instant // _MINUTE_US
    return DayStarts.once_a_minute(bits)


@lru_cache(maxsize=256)
def _band(minutes: int, at: int, step: int, count: int) -> DayStarts:
    """Count `count` ticks from `at` on, `step` apart, by arithmetic: an interval of 10 ms has 8,640,000 ticks a day."""
    reached = [
        min(max(0, -((at - bound) // step)), count) for bound in range(0, (minutes + 1) * _MINUTE_US, _MINUTE_US)
    ]
    counts = tuple(after - before for before, after in pairwise(reached))
    # A tick lies in each minute from the first to the last.
    first, last = at // _MINUTE_US, (at + step * (count - 1)) // _MINUTE_US
    return DayStarts(_ones(last + 1) ^ _ones(first), count, counts)


@lru_cache(maxsize=256)
def _every(step: int, number: int) -> int:
    """Return `number` bits, `step` apart, from bit 0 on."""
    return sum(1 << at for at in range(0, step * number, step))


@lru_cache(maxsize=1024)
def _of_cron(schedule: Schedule, day: Day) -> DayStarts:
    """Return the ticks of a whole day; cached, since many jobs share a schedule."""
    bits = 0
    for stretch in _stretches(schedule.timezone, day):
        if stretch.offset is None:
            bits |= _walked(schedule, day, stretch)
        else:
            bits |= _shifted(schedule, day, stretch, stretch.offset)
    return DayStarts.once_a_minute(bits)


class _Stretch(NamedTuple):
    """Part of a day with one offset of a zone from UTC; `offset` is None if the clock changes in it."""

    start: datetime
    end: datetime
    offset: timedelta | None


@lru_cache(maxsize=256)
def _stretches(timezone: str, day: Day) -> tuple[_Stretch, ...]:
    found: list[_Stretch] = []
    for hour in _hours(time_zone(timezone), day):
        if found and hour.offset is not None and found[-1].offset == hour.offset:
            found[-1] = found[-1]._replace(end=hour.end)
        else:
            found.append(hour)
    return tuple(found)


def _hours(zone: ZoneInfo, day: Day) -> Iterator[_Stretch]:
    for start, end in day.hours():
        # A tick at a change belongs to the change, and a second pass differs from the first.
        before, local = (start - MICROSECOND).astimezone(zone), start.astimezone(zone)
        is_steady = before.utcoffset() == (end - MICROSECOND).astimezone(zone).utcoffset() and not local.fold
        yield _Stretch(start, end, local.utcoffset() if is_steady else None)


def _walked(schedule: Schedule, day: Day, stretch: _Stretch) -> int:
    bits, tick = 0, schedule.next_after(stretch.start - MICROSECOND)
    while tick is not None and tick < stretch.end:
        bits |= 1 << day.minute(tick)
        tick = schedule.next_after(tick)
    return bits


def _shifted(schedule: Schedule, day: Day, stretch: _Stretch, offset: timedelta) -> int:
    """Return the matching minutes of each local date in a stretch, shifted to the minutes of the day."""
    first, last = ((instant + offset).date() for instant in (stretch.start, stretch.end - MICROSECOND))
    bits = 0
    for number in range((last - first).days + 1):
        local = first + timedelta(days=number)
        midnight = day.minute(datetime.combine(local, time(), UTC) - offset)
        pattern = schedule.minutes_on(local)
        bits |= pattern << midnight if midnight >= 0 else pattern >> -midnight
    return bits & (_ones(day.minute(stretch.end)) ^ _ones(day.minute(stretch.start)))


def _ones(number: int) -> int:
    return (1 << max(0, number)) - 1


def _first_instant(day: date, zone: ZoneInfo) -> datetime:
    midnight = datetime.combine(day, time(), zone)
    first, second = midnight.astimezone(UTC), midnight.replace(fold=1).astimezone(UTC)
    if first <= second:
        return first
    # The clock skips midnight between the two: the day begins at the change.
    return change_between(zone, second, first)
