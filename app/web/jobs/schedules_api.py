"""/schedules/day: starts of all schedules on one day."""

from datetime import datetime
from typing import Any

from app.kernel.access.api_keys import Scope
from app.queue.jobs.active_schedules import active_schedules
from app.queue.jobs.job_list import JobFilter
from app.queue.jobs.schedule_day import MAX_BUSIEST, BusyMinute, ChangedClock, DaySchedule, ScheduleDay, day_of
from app.schedule.day import Day, runs_of
from app.schedule.zones import time_zone
from app.web.jobs.schedule_day_schemas import DayQuery, ScheduleDaySchema
from app.web.openapi.resource import Resource
from app.web.services import services

# Nothing is stored, so the scope `read` is enough.
resource = Resource("schedules", "Forecasts of the starts of repeating jobs.", write_scope=Scope.READ)


@resource.route("GET", "/schedules/day", query=DayQuery, returns=ScheduleDaySchema)
def day(query: dict[str, Any]) -> dict[str, Any]:
    """Show the starts of all active schedules on one day, minute by minute.

    Computed from the timetables as they are now: starts before the creation of a job's present version are left out.
    At most 5,000 schedules are counted.
    """
    limit, zone = query.pop("limit"), query.pop("zone")
    local = query.pop("date", None) or datetime.now(time_zone(zone)).date()
    schedules, is_complete = active_schedules(services().database, JobFilter(**query))
    return _shape_day(day_of(schedules, Day.of(local, zone), is_complete=is_complete), limit)


def _shape_day(found: ScheduleDay, limit: int) -> dict[str, Any]:
    listed = sorted((each for each in found.schedules if each.starts.minutes), key=lambda each: each.starts.first or 0)
    return {
        "date": found.day.local,
        "zone": found.day.timezone,
        "start": found.day.at(0),
        "end": found.day.at(found.day.minutes),
        "counted": len(found.schedules),
        "starts": found.starts,
        "is_complete": found.is_complete,
        "by_minute": found.by_minute,
        "busiest": list(map(_shape_busy, found.busiest())),
        "clock_changes": list(map(_shape_change, found.clock_changes())),
        "schedules": [_shape_starts(found.day, each) for each in listed[:limit]],
    }


def _shape_starts(day: Day, each: DaySchedule) -> dict[str, Any]:
    first, last = each.starts.first, each.starts.last
    return _named(each) | {
        "starts": each.starts.starts,
        "first_at": None if first is None else day.at(first),
        "last_at": None if last is None else day.at(last),
        "runs": runs_of(each.starts.minutes),
        "is_estimate": each.schedule.timetable.fixed_delay,
    }


def _shape_busy(found: BusyMinute) -> dict[str, Any]:
    shown = found.schedules[:MAX_BUSIEST]
    more = len(found.schedules) - len(shown)
    return {"at": found.at, "starts": found.starts, "schedules": list(map(_named, shown)), "more": more}


def _shape_change(found: ChangedClock) -> dict[str, Any]:
    change, effects = found
    return {
        "at": change.at,
        "zone": change.timezone,
        "note": change.note,
        **{name: effects[name] for name in ("once", "skipped", "twice")},
    }


def _named(each: DaySchedule) -> dict[str, Any]:
    schedule = each.schedule
    return {"job_id": schedule.job_id, "name": schedule.name, "endpoint": schedule.endpoint}
