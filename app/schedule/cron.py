"""Cron schedules in a time zone: the next tick after an instant.

croniter walks local times without a zone; the mapping from local times to instants is done here, because croniter's
own handling of clock changes repeats and skips ticks.

When the clock changes, Vixie cron's rule holds (cron(8): jobs at a particular time run once, even when their time was
skipped or came twice; jobs with `*` in the minute or hour follow the new clock at once), made precise as follows:

- Skipped local times (clock forward): a schedule that matches every hour passes over them. Any other schedule fires
  once, at the first instant after the gap, for all its times in the gap together.
- Repeated local times (clock back): a schedule whose hours are all 24, or whose minute field begins with `*`, runs by
  elapsed time and fires in both passes. Any other schedule fires in the first pass only.

Deviations from Vixie cron: `*/2` in the hours is a list of hours that each come once a day, and `0-23` is the
same as `*`; `*/10 2 * * *` still fires once on a day whose hour 2 is skipped.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from app.kernel.errors import Detail, InvalidRequestError
from app.kernel.formats import MICROSECOND
from app.schedule.cron_expression import CronExpression, listed
from app.schedule.zones import change_between, fault_of, time_zone

if TYPE_CHECKING:
    from croniter import croniter

MAX_CRON = 256  # characters of an expression
# Bounds of the search: zones cannot shift times at the ends of Python's calendar.
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime(9900, 1, 1, tzinfo=UTC)
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A cron expression in a time zone; immutable and safe to share between threads."""

    expression: str
    timezone: str
    # Of the expression and the zone, which alone decide whether two schedules are equal.
    _fields: CronExpression = field(repr=False, compare=False)
    _zone: ZoneInfo = field(repr=False, compare=False)
    _calendar: "croniter" = field(repr=False, compare=False)

    @classmethod
    @lru_cache(maxsize=4096)
    def parse(cls, expression: str, timezone: str) -> "Schedule":
        """Parse a schedule.

        Raises InvalidCronError for an expression that is malformed or never fires, InvalidRequestError for a zone that
        is not in the IANA database.
        """
        fields = CronExpression.parse(expression)
        if message := fault_of(timezone):
            raise InvalidRequestError.of_faults(Detail(pointer="/timezone", message=message))
        return cls(expression, timezone, fields, time_zone(timezone), _calendar(fields))

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first tick strictly after an instant, in UTC; None when the calendar ends before it."""
        instant = max(instant.astimezone(UTC), _FIRST - MICROSECOND)
        if instant >= _LAST:
            return None
        local = instant.astimezone(self._zone)
        tick = self._first_tick(local.replace(tzinfo=None), instant)
        if self.fires_in_both_passes:
            back = self._clock_goes_back_over(local)
            if back is not None and (tick is None or tick >= back):
                # The second pass begins before that tick, at an earlier local time.
                start = back.astimezone(self._zone).replace(tzinfo=None)
                return self._first_tick(start - _MINUTE, back - MICROSECOND)
        return tick

    def local(self, instant: datetime) -> datetime:
        """Return an instant in the schedule's zone, with its offset from UTC."""
        return instant.astimezone(self._zone)

    def matches(self, wall: datetime) -> bool:
        """Return whether the expression matches a local time, ignoring clock changes."""
        return self._fields.matches(wall)

    def minutes_on(self, date: date) -> int:
        """Return the matching minutes of a local date as bits, ignoring clock changes."""
        return self._fields.minutes_of_day if self._fields.matches_date(date) else 0

    @property
    def fires_in_both_passes(self) -> bool:
        """True if repeated local times fire twice."""
        return self.passes_over_gaps or self._fields.sub_hourly

    @property
    def passes_over_gaps(self) -> bool:
        """True if skipped local times do not fire at all."""
        return len(self._fields.hours) == 24

    def _first_tick(self, wall: datetime, instant: datetime) -> datetime | None:
        """Return the first tick after `instant` among the local times after `wall`."""
        for time in self._local_times(wall):
            for tick in self._instants(time):
                if tick > instant:
                    return tick
        return None

    def _local_times(self, wall: datetime) -> Iterator[datetime]:
        """Iterate over the matching local times after a whole minute, ignoring clock changes."""
        # A croniter holds its position, so each iteration needs its own copy.
        calendar = copy.copy(self._calendar)
        calendar.set_current(wall.replace(second=0, microsecond=0, fold=0))
        while True:
            time = calendar.get_next(datetime)
            if time >= _LAST.replace(tzinfo=None):
                return
            yield time

    def _instants(self, time: datetime) -> tuple[datetime, ...]:
        """Return the instants at which a local time fires, in order."""
        early = time.replace(tzinfo=self._zone, fold=0)
        late = time.replace(tzinfo=self._zone, fold=1)
        first, second = early.astimezone(UTC), late.astimezone(UTC)
        if first == second:
            return (first,)
        if first < second:
            return (first, second) if self.fires_in_both_passes else (first,)
        # In a gap the offset of fold 0 is the offset before the gap, so `first` lies after the gap and `second` before.
        return () if self.passes_over_gaps else (change_between(self._zone, second, first),)

    def _clock_goes_back_over(self, local: datetime) -> datetime | None:
        """Return when the clock is set back to before `local`; None unless `local` is in the first of two passes."""
        again = local.replace(fold=1)
        if local.fold == 1 or again.utcoffset() == local.utcoffset():
            return None
        return change_between(self._zone, local.astimezone(UTC), again.astimezone(UTC))


def _calendar(fields: CronExpression) -> "croniter":
    """Return a croniter over plain lists; a full field becomes `*`, which it also means in either day field."""
    from croniter import croniter  # noqa: PLC0415 - workers rarely need it, and it is slow to import

    days, weekdays = listed(fields.days, 31), listed(fields.weekdays, 7)
    if fields.either_day and not fields.has_day_of_month():
        days = "*"  # croniter would search decades for such a day at each call
    elif fields.either_day and "*" in (days, weekdays):
        days = weekdays = "*"
    text = " ".join([listed(fields.minutes, 60), listed(fields.hours, 24), days, listed(fields.months, 12), weekdays])
    return croniter(text, datetime(1970, 1, 1), day_or=fields.either_day)  # noqa: DTZ001 - local, of no zone
