"""When a job runs next."""

from datetime import datetime

from app.jobs.model import Job
from schema.states import ExecutionStatus


def next_runs(job: Job, count: int) -> list[datetime]:
    """List the next instants at which a job is due, at most `count`.

    A fixed delay is counted from the end of an execution, so only one instant of such a job is known. A one-shot job
    has its own time until it has begun.
    """
    if job.timetable is None:
        waiting = job.execution is not None and job.execution.status in {
            ExecutionStatus.PENDING,
            ExecutionStatus.QUEUED,
        }
        return [job.run_at or job.created_at] if waiting and job.paused_at is None else []
    runs: list[datetime] = []
    tick = job.next_run_at
    while tick is not None and len(runs) < count and not job.timetable.is_over(tick):
        runs.append(tick)
        tick = None if job.timetable.fixed_delay else job.timetable.next_after(tick)
    return runs
