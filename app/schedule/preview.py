"""Preview of a schedule: its next runs, with notes on clock changes, and the schedule in English."""

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from cronsim.explain import Expression

from app.kernel.formats import MICROSECOND
from app.schedule.cron import Schedule
from app.schedule.cron_expression import CronExpression, listed

_MINUTE = timedelta(minutes=1)
_SUFFIXES = {"1": "st", "2": "nd", "3": "rd"}


class NextRun(NamedTuple):
    """Future run: the instant, its local time in the schedule's zone, and a note on a clock change."""

    run_at: datetime
    local_time: datetime
    note: str | None


def runs(schedule: Schedule, after: datetime, count: int, before: datetime | None = None) -> list[NextRun]:
    """List the next runs strictly after an instant: at most `count`, and none at or after `before`."""
    found: list[NextRun] = []
    tick = schedule.next_after(after)
    while tick is not None and len(found) < count and (before is None or tick < before):
        found.append(NextRun(tick, schedule.local(tick), _note(schedule, tick)))
        tick = schedule.next_after(tick)
    return found


@lru_cache(maxsize=4096)
def describe(text: str) -> str:
    """Describe a cron expression in English; raises InvalidCronError. Cached, since lists show it again and again."""
    fields = CronExpression.parse(text)
    days, weekdays = _range(fields.days, 31), _range([day or 7 for day in fields.weekdays], 7)
    if fields.either_day and "*" in {days, weekdays}:
        days = weekdays = "*"
    minutes, hours, months = _stepped(fields.minutes), _range(fields.hours, 24), listed(fields.months, 12)
    explained = Expression([minutes, hours, days, months, weekdays])
    explained.day_and = not fields.either_day
    # cronsim writes an ambiguous "and", and 21th, 22th, 23th and 31th.
    text = explained.explain().replace(" and on ", " or on ")
    return re.sub("(?<=[23])([123])th", lambda found: found[1] + _SUFFIXES[found[1]], text)


def _stepped(minutes: Sequence[int]) -> str:
    """Write minutes as a step if the step also continues evenly into the next hour."""
    step = 60 // len(minutes)
    return f"*/{step}" if 1 < step < 30 and tuple(minutes) == tuple(range(0, 60, step)) else _range(minutes, 60)


def _range(values: Sequence[int], size: int) -> str:
    """Write values as `*`, a range or a list; a step would suggest that it continues past the end."""
    values = sorted(values)
    is_range = 2 < len(values) < size and values[-1] - values[0] == len(values) - 1
    return f"{values[0]}-{values[-1]}" if is_range else listed(values, size)


def _note(schedule: Schedule, tick: datetime) -> str | None:
    local = schedule.local(tick)
    if local.replace(fold=0).astimezone(UTC) < local.replace(fold=1).astimezone(UTC):
        time = f"{local:%H:%M} comes twice on this day"
        if schedule.fires_in_both_passes:
            return f"{time}: this is the {'second' if local.fold else 'first'} time, and it runs both times."
        return f"{time}: it runs the first time only."
    end = local.replace(tzinfo=None)
    begin = schedule.local(tick - MICROSECOND).replace(tzinfo=None) + MICROSECOND
    # A clock change at this instant skips the local times between the two.
    skipped = [] if schedule.passes_over_gaps else range(math.ceil((end - begin) / _MINUTE))
    if any(schedule.matches(begin + number * _MINUTE) for number in skipped):
        first, last = (f"{time:%Y-%m-%d %H:%M}" for time in (begin, end))
        return f"Local times from {first} to {last} do not exist: runs due then merge into this one."
    return None
