"""Schedules: a day of all schedules as a picture, overdue schedules first, and paused schedules."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import query
from app.console.http.page_rendering import here, now, to
from app.console.pages.schedule_filter import given_filter, schedule_filter, shown_day, zoned
from app.console.views.day_strip import BAR_HEIGHT, STRIP_HEIGHT, Strip, bars_of, hours_of, path_of, strip_of
from app.console.views.reach import reach_of_job
from app.console.views.schedule_words import overdue_by, rule_of, words_of
from app.console.views.status_words import ShownStatus, status_of
from app.kernel.db.paging import PageRequest
from app.queue.jobs.active_schedules import ActiveSchedule, active_schedules
from app.queue.jobs.job_list import JobFilter, page_of_jobs
from app.queue.jobs.latest_runs import latest_runs
from app.queue.jobs.open_executions import OpenExecutions, open_executions
from app.queue.jobs.schedule_day import DaySchedule, ScheduleDay, day_of
from app.schedule.zones import names
from app.web.services import services
from schema.states import ExecutionStatus, JobStatus

ROWS, PAUSED, BUSIEST = 100, 50, 3
SORTS = ("next run", "name", "starts")

page = ConsolePage("schedules", "/schedules", "Schedules", reads="GET /schedules/day", nav="Schedules", shortcut="s")


class Row(NamedTuple):
    """A schedule as it is listed; `late` is None unless it is overdue, `reach` is that of a pause.

    `runs` are the results of its last runs, oldest first.
    """

    schedule: ActiveSchedule
    strip: Strip
    starts: int
    rule: str
    words: str
    late: timedelta | None
    reach: list[str]
    runs: Sequence[ShownStatus]

    @property
    def name(self) -> str:
        return name_of(self.schedule)

    @property
    def left_out(self) -> int:
        """Return how many ticks of this version started no run."""
        return self.schedule.skipped_catch_up + self.schedule.skipped_overlap


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
    }


@page.region("day", live="jobs")
def day() -> Values:
    """Compute the starts of the day, and list the schedules."""
    shown, wanted = shown_day(), schedule_filter(query())
    schedules, is_complete = active_schedules(services().database, wanted)
    found = day_of(schedules, shown, is_complete=is_complete)
    grace = timedelta(seconds=services().settings.misfire_grace_seconds)
    time, hours = now(), hours_of(shown)
    late = {each.schedule.job_id: overdue_by(each.schedule.next_run_at, time, grace) for each in found.schedules}
    at = shown.minute(time)
    listed = _sorted(found.schedules, late)[:ROWS]
    jobs = [each.schedule.job_id for each in listed]
    waiting, runs = open_executions(services().database, jobs), latest_runs(services().database, jobs)
    return {
        "day": shown,
        "found": found,
        "rows": [
            _row(each, late[job_id], waiting[job_id], runs[job_id], at)
            for each, job_id in zip(listed, jobs, strict=True)
        ],
        "more": max(0, len(found.schedules) - ROWS),
        "overdue": sum(each is not None for each in late.values()),
        "bars": bars_of(shown, found.by_minute),
        "hours": hours,
        "hours_path": path_of(hours, STRIP_HEIGHT),
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


def _row(
    each: DaySchedule, late: timedelta | None, waiting: OpenExecutions, runs: Sequence[ExecutionStatus], at: int
) -> Row:
    schedule = each.schedule
    return Row(
        schedule,
        strip_of(each.starts.minutes),
        each.starts.starts,
        rule_of(schedule.timetable),
        words_of(schedule.timetable),
        late,
        reach_of_job(waiting, each.starts.starts_from(max(at + 1, 0))),
        [status_of(each) for each in runs],
    )


def _sorted(schedules: Sequence[DaySchedule], late: Mapping[str, timedelta | None]) -> list[DaySchedule]:
    """Sort as the address asks for, overdue schedules first in any case."""
    wanted, last = query().choice("sort", SORTS, SORTS[0]), now() + timedelta(days=36_500)

    def place(each: DaySchedule) -> Any:
        if wanted == "name":
            return name_of(each.schedule).lower()
        if wanted == "starts":
            return -each.starts.starts
        return each.schedule.next_run_at or last

    return sorted(schedules, key=lambda each: (late[each.schedule.job_id] is None, place(each), each.schedule.job_id))


def name_of(schedule: ActiveSchedule) -> str:
    return schedule.name or schedule.job_id


def _busiest(found: ScheduleDay) -> list[Values]:
    day_given = {"date": str(found.day.local), "zone": found.day.timezone}
    return [
        {
            "at": f"{busy.at:%H:%M}",
            "spread": to("spread", **given_filter(), **day_given, minute=found.day.minute(busy.at)),
            "starts": busy.starts,
            "schedules": busy.schedules[:3],
            "more": max(0, len(busy.schedules) - 3),
        }
        for busy in found.busiest(BUSIEST)
    ]
