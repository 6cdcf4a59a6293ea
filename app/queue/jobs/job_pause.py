"""Pausing and resuming jobs.

A pause stops ticks and puts waiting executions on hold. Running executions continue; the scheduler puts their retries
on hold. Ticks that fall into a pause are not caught up; a resumption cancels ticks that were materialised before.
Ticks that were missed before a pause, because no scheduler ran, are counted like ticks skipped by the catch-up rule.
"""

from collections import Counter
from collections.abc import Collection
from datetime import datetime
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection

from app.kernel.db import Database
from app.kernel.errors import ConflictError, TaskExecutorError
from app.kernel.sql import statement
from app.queue.executions import on_hold
from app.queue.executions.execution_cancellation import CancellationScope, cancel_ticks_in_pause
from app.queue.jobs import job_queries, retirement, unfinished_changes
from app.queue.jobs.job_model import Job
from app.queue.jobs.unfinished_changes import Change
from app.schedule.due_ticks import DueJob, count_missed
from schema.states import JobStatus

PAUSE = statement(
    "jobs.pause",
    """
    UPDATE jobs SET status = 'PAUSED', paused_at = now(), cron_next_run_at = NULL,
                    skipped_catch_up = skipped_catch_up + CAST(:missed AS BIGINT)
     WHERE job_id = :job_id AND status = 'ACTIVE'
    """,
)
RESUME = statement(
    "jobs.resume",
    """
    UPDATE jobs SET status = CASE WHEN CAST(:over AS BOOLEAN) THEN 'RETIRED' ELSE 'ACTIVE' END, paused_at = NULL,
                    retired_at = CASE WHEN CAST(:over AS BOOLEAN) THEN now() END,
                    ended_at = CASE WHEN CAST(:over AS BOOLEAN) THEN now() END,
                    end_reason = CASE WHEN CAST(:over AS BOOLEAN) THEN 'NO_TICK_LEFT' END,
                    cron_next_run_at = CAST(:next_run_at AS TIMESTAMPTZ)
     WHERE job_id = :job_id AND status = 'PAUSED'
    """,
)
RAN_OUT = statement("jobs.ran_out", "SELECT 1 FROM jobs WHERE job_id = :job_id AND end_reason = 'NO_TICK_LEFT'")
# A fixed-delay job with an unfinished execution gets its next tick when that execution ends.
UNFINISHED = statement(
    "jobs.unfinished_tick",
    """
    SELECT e.execution_id FROM executions AS e JOIN jobs AS j ON j.job_id = e.job_id
     WHERE e.job_id = :job_id AND e.completed_at IS NULL AND e.scheduled_at = j.cron_last_tick_at
    """,
)


class FirstBatch(NamedTuple):
    """First transaction of a change: queues to wake, the last execution if more follow, and the change's id.

    `retires`: the job has no tick left.
    """

    queues: Counter[str]
    last: str | None
    change: str | None
    retires: bool = False


def pause_job(database: Database, job_id: str, actor: str | None = None) -> None:
    """Pause a job and put its waiting executions on hold in batches, the first batch in the same transaction.

    Does nothing if the job is paused. Raises JobNotFoundError, or ConflictError for a retired job.
    """
    first = database.transact(partial(begin_pause, job_id=job_id, actor=actor))
    on_hold.hold_the_rest(database, job_id, first.last, actor)
    unfinished_changes.end(database, job_id, first.change)


def begin_pause(connection: Connection, job_id: str, actor: str | None) -> FirstBatch:
    """Pause a job and put the first batch of its executions on hold; a scheduler finishes the change."""
    job, now = job_queries.lock_job(connection, job_id)
    _refuse_retired(connection, job, "paused")
    connection.execute(PAUSE, {"job_id": job_id, "missed": missed_ticks(job, now)})
    last = on_hold.hold(connection, job_id, actor)
    scope = CancellationScope(actor=actor, begun=False)
    return FirstBatch(Counter(), last, unfinished_changes.begin(connection, job_id, Change.PAUSE, scope, last))


def missed_ticks(job: Job, now: datetime) -> int:
    """Return the number of ticks until now that no scheduler has chosen: after a pause or an update none of them runs.

    A timetable that the time zones of this machine cannot read has none, so that the job can still be changed.
    """
    if job.timetable is None or job.next_run_at is None:
        return 0
    due = DueJob(job.job_id, job.timetable, job.next_run_at, busy=False, now=now, horizon=now)
    try:
        return count_missed(due)
    except TaskExecutorError:
        return 0


def resume_job(database: Database, job_id: str, look_ahead_ms: int, actor: str | None = None) -> Collection[str]:
    """Resume a job with its next tick after now; returns the queues to wake.

    Does nothing if the job is active. A job without a tick left retires, and its executions on hold are released.
    Raises JobNotFoundError, or ConflictError for a retired job.
    """
    has_retired = False

    def body(connection: Connection) -> FirstBatch:
        nonlocal has_retired
        # An earlier run of this transaction may have been committed, but its answer was lost.
        batch = begin_resumption(connection, job_id, look_ahead_ms, actor, has_retired=has_retired)
        has_retired = has_retired or batch.retires
        return batch

    first = database.transact(body)
    queues = first.queues + on_hold.let_the_rest_go(database, job_id, look_ahead_ms, actor, after=first.last)
    unfinished_changes.end(database, job_id, first.change)
    return queues


def begin_resumption(
    connection: Connection, job_id: str, look_ahead_ms: int, actor: str | None, *, has_retired: bool = False
) -> FirstBatch:
    """Resume a job and release the first batch of its executions; a scheduler finishes the change.

    With `has_retired`, a job that an earlier run of the transaction has retired is not refused.
    """
    retires = False
    job, now = job_queries.lock_job(connection, job_id)
    if not (has_retired and connection.execute(RAN_OUT, {"job_id": job_id}).first()):
        _refuse_retired(connection, job, "resumed")
    if job.status is JobStatus.PAUSED:
        if job.timetable is not None and job.paused_at is not None:
            cancel_ticks_in_pause(connection, job_id, job.paused_at, now, actor)
        end = _next(connection, job, now)
        retires = bool(end["over"])
        connection.execute(RESUME, {"job_id": job_id} | end)
    queues, last = on_hold.let_go(connection, job_id, look_ahead_ms, actor)
    scope = CancellationScope(actor=actor, begun=False)
    change = unfinished_changes.begin(connection, job_id, Change.RESUME, scope, last)
    return FirstBatch(queues, last, change, retires)


def _next(connection: Connection, job: Job, now: datetime) -> dict[str, object]:
    table = job.timetable
    if table is None or (table.fixed_delay and connection.execute(UNFINISHED, {"job_id": job.job_id}).first()):
        return {"next_run_at": None, "over": False}
    tick = table.next_tick(now)
    return {"next_run_at": tick, "over": tick is None}


def _refuse_retired(connection: Connection, job: Job, action: str) -> None:
    if job.status is JobStatus.RETIRED:
        raise ConflictError(retirement.refusal(connection, job, action))
