"""Spread of schedules that start in the same minute: a proposal, and the moves that a person ticks."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from flask import Response

from app.console.http.actions import Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import form, query, refuse
from app.console.http.page_rendering import now, to
from app.console.pages.schedule_filter import given_filter, schedule_filter, shown_day, zoned
from app.console.views.schedule_words import rule_of
from app.kernel.errors import JobNotUpdatableError, TaskExecutorError
from app.queue.jobs.active_schedules import active_schedules
from app.queue.jobs.job_model import Job
from app.queue.jobs.job_queries import get_job
from app.queue.jobs.job_update import update_job
from app.queue.jobs.open_executions import open_executions
from app.queue.jobs.schedule_day import DaySchedule, day_of
from app.schedule.cron import Schedule
from app.schedule.preview import NextRun, runs
from app.schedule.spread import ProposedMove, offsets, proposed, shifted
from app.schedule.timetable import Timetable
from app.web.http.conditions import actor
from app.web.http.request_log import trace_of_new_jobs
from app.web.services import services

MOST, TICKS = 100, 3
OPERATION = "PUT /jobs/<job_id>"

page = ConsolePage(
    "spread", "/schedules/spread", "Spread schedules", reads="GET /schedules/day", under="schedules", has_request=False
)


class SpreadRow(NamedTuple):
    """A schedule with the proposal, and the next ticks by the present and by the new rule."""

    found: DaySchedule
    move: ProposedMove
    rules: tuple[str, str]
    before: list[NextRun]
    after: list[NextRun]


@page.show
def show() -> Values:
    """Propose moves for the schedules of a minute of the day; without a minute, of the busiest minute."""
    shown = shown_day()
    schedules, is_complete = active_schedules(services().database, schedule_filter(query()))
    day = day_of(schedules, shown, is_complete=is_complete)
    most = max(day.by_minute, default=0)
    busiest = day.by_minute.index(most) if day.by_minute else 0
    minute = query().whole("minute", busiest, least=0, most=max(0, shown.minutes - 1))
    found = [each for each in day.schedules if each.starts.in_minute(minute)]
    found.sort(key=lambda each: (each.starts.starts, each.schedule.name or "", each.schedule.job_id))
    listed = found[:MOST]
    given = [(each.schedule.timetable, each.starts, each.schedule.created_at) for each in listed]
    moves, load = proposed(shown, given, day.by_minute)
    return {
        "results": None,
        "at": shown.at(minute) if day.by_minute else None,
        "rows": [_row(each, move) for each, move in zip(listed, moves, strict=True)],
        "more": len(found) - len(listed),
        "is_complete": day.is_complete,
        "in_minute": (day.by_minute[minute], load[minute]) if load else (0, 0),
        "peak": (most, max(load, default=0)),
        "open": open_executions(services().database, [each.schedule.job_id for each in listed]),
        "changes": [each.change.note for each in day.clock_changes()],
        "schedules": to("schedules", **given_filter(), date=str(shown.local), zone=shown.timezone),
        "zoned": zoned,
    }


@action(f"{OPERATION} spread")
def spread() -> Done | Response:
    """Move the ticked schedules in a transaction for each schedule, and list the results."""
    wanted = [_wanted(text) for text in form().many("move")]
    if not 1 <= len(wanted) <= MOST:
        refuse("move", f"Tick 1 to {MOST} schedules.")
    # A refused schedule must not undo other moves, so the transaction of the form ends here.
    services().database.commit_jointly()
    return page.answer({}, {"results": [*_results(wanted)], "schedules": to("schedules")})


def _row(each: DaySchedule, move: ProposedMove) -> SpreadRow:
    before = each.schedule.timetable
    rules = (_rule(before), _rule(move.table))
    return SpreadRow(each, move, rules, _ticks(before), _ticks(move.table) if move.offset else [])


def _rule(table: Timetable) -> str:
    if table.cron is not None:
        return rule_of(table)
    return f"{rule_of(table)} from {table.starts_at:%H:%M:%S} UTC"


def _ticks(table: Timetable) -> list[NextRun]:
    ticks = table.ticks()
    start = max(now(), table.starts_at)
    if isinstance(ticks, Schedule):
        return runs(ticks, start, TICKS, table.ends_at)
    return [NextRun(tick, table.local(tick), None) for tick in islice(_series(table, start), TICKS)]


def _series(table: Timetable, after: datetime) -> Iterator[datetime]:
    tick = table.next_after(after)
    while tick is not None:
        yield tick
        tick = table.following(tick)


def _wanted(text: str) -> tuple[str, int]:
    job_id, _, offset = text.rpartition(" ")
    try:
        return job_id, int(offset[:4])
    except ValueError:
        refuse("move", "Must be the id of a job and a number of minutes.")


def _results(wanted: Sequence[tuple[str, int]]) -> Iterator[Values]:
    """Move schedules; a fault of the service ends the moves, and the results name the schedules that were not tried."""
    stopped = False
    for job_id, offset in wanted:
        found: dict[str, Any] = {"job_id": job_id, "name": job_id, "rule": "", "fault": ""}
        try:
            if stopped:
                found["fault"] = "Not tried, after the fault above. Move it again."
            else:
                found |= _moved(job_id, offset)
        except TaskExecutorError as error:
            stopped = error.status >= 500
            found["fault"] = error.message
        yield found


def _moved(job_id: str, offset: int) -> Values:
    """Move a schedule as the editor does; raises TaskExecutorError, also for a version that is no longer in effect."""
    job = get_job(services().database, job_id)
    if job.timetable is None or offset not in offsets(job.timetable):
        raise JobNotUpdatableError("The schedule cannot be moved by so many minutes.")
    table = shifted(job.timetable, offset)
    changed = _moved_before(job, table)
    if changed is None:
        changes = {"starts_at": table.starts_at} if table.cron is None else {"cron": table.cron}
        changed = update_job(services().creator, job_id, changes, actor().name, trace_of_new_jobs())
    return {"job_id": changed.job_id, "name": job.name or job_id, "rule": _rule(table)}


def _moved_before(job: Job, table: Timetable) -> Job | None:
    """Return the next version of a job if it has the timetable already: the same form may be sent twice."""
    if job.replaced_by_id is None:
        return None
    newer = get_job(services().database, job.replaced_by_id)
    found = newer.timetable
    is_same = found is not None and (found.cron, found.starts_at) == (table.cron, table.starts_at)
    return newer if is_same else None
