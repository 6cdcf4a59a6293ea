"""Schedules: a day of all schedules as a picture, overdue schedules first, and paused schedules."""

from datetime import timedelta
from typing import Any, NamedTuple

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import query
from app.console.http.page_rendering import here, now, to
from app.console.pages.schedule_filter import given_filter, schedule_filter, shown_day, zoned
from app.console.views.day_strip import BAR_HEIGHT, Strip, bars_of, hours_of, strip_of
from app.console.views.schedule_words import overdue_by, rule_of, words_of
from app.features.simulate.schedule_day import DaySchedule, ScheduleDay, day_of
from app.kernel.db.paging import PageRequest
from app.queue.jobs.active_schedules import ActiveSchedule, active_schedules
from app.queue.jobs.job_list import JobFilter, page_of_jobs
from app.schedule.zones import names
from app.web.services import services
from schema.states import JobStatus

ROWS, PAUSED, BUSIEST = 100, 50, 3
SORTS = ("next run", "name", "starts")

page = ConsolePage("schedules", "/schedules", "Schedules", reads="GET /schedules/day", nav="Schedules", shortcut="s")


class Row(NamedTuple):
    """A schedule as it is listed; `late` is None unless it is overdue."""

    schedule: ActiveSchedule
    strip: Strip
    starts: int
    rule: str
    words: str
    late: timedelta | None

    @property
    def name(self) -> str:
        return self.schedule.name or self.schedule.job_id


@page.show
def show() -> Values:
    """Return the filter and the day, which a person types."""
    day = shown_day()
    return {
        "given": given_filter(),
        "date": day.local.isoformat(),
        "zone": day.timezone,
        "zones": sorted(names()),
        "sorts": SORTS,
        "sort": query().choice("sort", SORTS, SORTS[0]),
        "earlier": here(date=str(day.local - timedelta(days=1))),
        "later": here(date=str(day.local + timedelta(days=1))),
        "today": here(date=""),
        "what_if": to("what_if", **given_filter()),
        "bulk": {verb: to("schedules_bulk", action=verb, **given_filter()) for verb in ("pause", "resume")},
    }


@page.region("day", live="jobs")
def day() -> Values:
    """Compute the starts of the day, and list the schedules."""
    shown, wanted = shown_day(), schedule_filter(query())
    schedules, is_complete = active_schedules(services().database, wanted)
    found = day_of(schedules, shown, is_complete=is_complete)
    rows = _sorted([_row(each) for each in found.schedules])
    at = shown.minute(now())
    return {
        "day": shown,
        "found": found,
        "rows": rows[:ROWS],
        "more": max(0, len(rows) - ROWS),
        "overdue": sum(row.late is not None for row in rows),
        "bars": bars_of(shown, found.by_minute),
        "hours": hours_of(shown),
        "height": BAR_HEIGHT,
        "most": max(found.by_minute, default=0),
        "busiest": _busiest(found),
        "at": at if 0 <= at < shown.minutes else None,
        "zoned": zoned,
    }


@page.region("paused", live="jobs", reads="GET /jobs")
def paused() -> Values:
    """Read the newest paused schedules of the filter."""
    wanted = schedule_filter(query())
    listed = JobFilter(status=JobStatus.PAUSED, endpoint=wanted.endpoint, name=wanted.name, labels=wanted.labels)
    found = page_of_jobs(services().database, listed, PageRequest(PAUSED))
    jobs = [(job, rule_of(job.timetable)) for job in found.items if job.timetable is not None]
    return {"jobs": jobs, "is_more": found.next is not None}


def _row(each: DaySchedule) -> Row:
    schedule = each.schedule
    grace = timedelta(seconds=services().settings.misfire_grace_seconds)
    return Row(
        schedule,
        strip_of(each.starts.minutes),
        each.starts.starts,
        rule_of(schedule.timetable),
        words_of(schedule.timetable),
        overdue_by(schedule.next_run_at, now(), grace),
    )


def _sorted(rows: list[Row]) -> list[Row]:
    """Sort as the address asks for, overdue schedules first in any case."""
    wanted = query().choice("sort", SORTS, SORTS[0])

    def place(row: Row) -> Any:
        if wanted == "name":
            return row.name.lower()
        if wanted == "starts":
            return -row.starts
        return row.schedule.next_run_at or now() + timedelta(days=36_500)

    return sorted(rows, key=lambda row: (row.late is None, place(row), row.schedule.job_id))


def _busiest(found: ScheduleDay) -> list[Values]:
    return [
        {
            "at": f"{busy.at:%H:%M}",
            "starts": busy.starts,
            "schedules": busy.schedules[:3],
            "more": max(0, len(busy.schedules) - 3),
        }
        for busy in found.busiest()[:BUSIEST]
    ]
