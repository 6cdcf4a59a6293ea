"""Day of all active schedules: their starts minute by minute, the busiest minutes, and clock changes."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from app.kernel.errors import TaskExecutorError
from app.kernel.unreadable import report
from app.queue.jobs.active_schedules import ActiveSchedule
from app.schedule.clock_changes import ClockChange, changes_on
from app.schedule.cron import Schedule
from app.schedule.day import Day, DayStarts, starts_on
from app.schedule.day_load import DayLoad, busiest

MAX_BUSIEST = 10  # minutes, and schedules of each
SECONDS = 1.0


class DaySchedule(NamedTuple):
    schedule: ActiveSchedule
    starts: DayStarts


class BusyMinute(NamedTuple):
    """A minute with many starts, and its schedules, the schedules with the fewest starts on the day first."""

    at: datetime
    starts: int
    schedules: Sequence[DaySchedule]


class ChangedClock(NamedTuple):
    """A clock change, and how many schedules run once, are skipped or run twice at its local times."""

    change: ClockChange
    effects: Counter[str]


class ScheduleDay(NamedTuple):
    """Starts of a day; `by_minute` begins at the first minute of the day."""

    day: Day
    schedules: Sequence[DaySchedule]
    by_minute: Sequence[int]
    starts: int
    is_complete: bool

    def busiest(self, most: int = MAX_BUSIEST) -> list[BusyMinute]:
        """Return the minutes with most starts; empty if no two schedules start together."""
        return [self._busy(minute) for minute in busiest(self.by_minute, most)]

    def _busy(self, minute: int) -> BusyMinute:
        found = [each for each in self.schedules if each.starts.in_minute(minute)]
        found.sort(key=attrgetter("starts.starts", "schedule.job_id"))
        return BusyMinute(self.day.at(minute), self.by_minute[minute], found)

    def clock_changes(self) -> list[ChangedClock]:
        """Return the clock changes of the day in the zones of its cron schedules, and in its own zone."""
        crons = [ticks for each in self.schedules if isinstance(ticks := each.schedule.timetable.ticks(), Schedule)]
        zones = sorted({self.day.timezone, *(schedule.timezone for schedule in crons)})
        found = []
        for change in (change for zone in zones for change in changes_on(self.day, zone)):
            affected = [each for each in crons if each.timezone == change.timezone and change.affects(each)]
            if affected or change.timezone == self.day.timezone:
                found.append(ChangedClock(change, Counter(map(change.effect_on, affected))))
        return sorted(found, key=attrgetter("change.at"))


def day_of(schedules: Sequence[ActiveSchedule], day: Day, *, is_complete: bool = True) -> ScheduleDay:
    """Compute the starts of schedules on a day, for at most SECONDS; the result says whether it is complete."""
    load, found, until = DayLoad(day.minutes), list[DaySchedule](), time.monotonic() + SECONDS
    for schedule in schedules:
        if time.monotonic() >= until:
            is_complete = False
            break
        try:
            starts = _starts(schedule, day)
        except (TaskExecutorError, ArithmeticError, ValueError) as error:
            report(f"schedule of job {schedule.job_id}", error)
        else:
            found.append(DaySchedule(schedule, starts))
            load.add(starts)
    return ScheduleDay(day, found, load.by_minute(), load.starts, is_complete)


def _starts(schedule: ActiveSchedule, day: Day) -> DayStarts:
    table = schedule.timetable
    if not table.fixed_delay:
        return starts_on(day, table, after=schedule.created_at)
    # Ends of executions set the ticks of a fixed delay: only the next tick is known.
    return (
        DayStarts() if schedule.next_run_at is None else starts_on(day, replace(table, starts_at=schedule.next_run_at))
    )
