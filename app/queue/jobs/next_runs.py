"""Next runs of a job."""

from datetime import UTC, datetime

from app.kernel.formats import MICROSECOND
from app.queue.jobs.job_model import Job
from app.schedule.cron import Schedule
from app.schedule.preview import NextRun, runs
from app.schedule.timetable import Timetable
from schema.states import ExecutionStatus

_WAITING = {ExecutionStatus.PENDING, ExecutionStatus.QUEUED}


def next_runs(job: Job, count: int) -> list[NextRun]:
    """Return up to `count` next runs of a job; none if it is paused or retired.

    A fixed delay counts from the end of an execution, so only one next run is known.
    """
    if job.timetable is None:
        if job.execution is None:
            return []
        waits = job.execution.status in _WAITING and job.paused_at is None
        return [_run(job.execution.run_at)] if waits else []
    if job.next_run_at is None or job.timetable.is_over(job.next_run_at):
        return []
    if job.timetable.cron is None:
        return _by_interval(job.timetable, job.next_run_at, 1 if job.timetable.fixed_delay else count)
    schedule = Schedule.parse(job.timetable.cron, job.timetable.timezone or "")
    return runs(schedule, job.next_run_at - MICROSECOND, count, job.timetable.ends_at)


def _by_interval(table: Timetable, first: datetime, count: int) -> list[NextRun]:
    found: list[NextRun] = []
    tick: datetime | None = first
    while tick is not None and len(found) < count:
        found.append(_run(tick))
        tick = table.next_after(tick)
    return found


def _run(instant: datetime) -> NextRun:
    return NextRun(instant, instant.astimezone(UTC), None)
