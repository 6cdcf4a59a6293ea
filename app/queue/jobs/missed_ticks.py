"""Missed ticks of a repeating job that is paused or replaced before a scheduler has chosen them."""

from datetime import datetime

from app.kernel.errors import TaskExecutorError
from app.queue.jobs.job_model import Job
from app.schedule.due_ticks import DueJob, count_missed


def count(job: Job, now: datetime) -> int:
    """Return the number of ticks that were due while no scheduler ran: after a pause or an update none of them runs."""
    if job.timetable is None or job.next_run_at is None:
        return 0
    due = DueJob(job.job_id, job.timetable, job.next_run_at, busy=False, now=now, horizon=now)
    try:
        return count_missed(due)
    except TaskExecutorError:  # this machine's time zones may be older than the timetable; the change is still possible
        return 0
