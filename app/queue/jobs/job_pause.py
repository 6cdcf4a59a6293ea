"""Pausing and resuming jobs.

A pause stops ticks and holds waiting executions back. A running one continues; the scheduler holds its retries back.
Ticks that fall into a pause are not made up for.
"""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection

from app.kernel.db import Database
from app.kernel.errors import ConflictError
from app.kernel.sql import statement
from app.queue.executions import on_hold
from app.queue.executions.execution_cancellation import Scope
from app.queue.executions.on_hold import Freed
from app.queue.jobs import job_queries, unfinished_changes
from app.queue.jobs.job_model import Job
from app.queue.jobs.unfinished_changes import Change
from app.schedule.timetable import Timetable
from schema.states import JobStatus

PAUSE = statement(
    "jobs.pause",
    """
    UPDATE jobs SET status = 'PAUSED', paused_at = now(), cron_next_run_at = NULL
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
# A fixed-delay job whose execution is unfinished gets its next tick when that ends.
UNFINISHED = statement(
    "jobs.unfinished_tick",
    """
    SELECT e.execution_id FROM executions AS e JOIN jobs AS j ON j.job_id = e.job_id
     WHERE e.job_id = :job_id AND e.completed_at IS NULL AND e.scheduled_at = j.cron_last_tick_at
    """,
)


def pause_job(database: Database, job_id: str, actor: str | None = None) -> None:
    """Pause a job; what is waiting is held back in batches, the first of them with the pause itself.

    Does nothing more to a paused one. Raises JobNotFoundError, or ConflictError for a retired job.
    """

    def body(connection: Connection) -> tuple[str | None, str | None]:
        _refuse_retired(job_queries.lock_job(connection, job_id).job, "paused")
        connection.execute(PAUSE, {"job_id": job_id})
        last = on_hold.hold(connection, job_id, actor)
        return last, _begin(connection, job_id, Change.PAUSE, last, actor)

    last, change = database.transact(body)
    on_hold.hold_the_rest(database, job_id, last, actor)
    unfinished_changes.end(database, job_id, change)


def resume_job(database: Database, job_id: str, look_ahead_ms: int, actor: str | None = None) -> Collection[str]:
    """Resume a job with its first tick from now on; returns the queues to wake.

    Does nothing to an active job. A job that ended during the pause retires, and what was held back is let go.
    Raises JobNotFoundError, or ConflictError for a retired job.
    """

    def body(connection: Connection) -> tuple[Freed, str | None]:
        locked = job_queries.lock_job(connection, job_id)
        _refuse_retired(locked.job, "resumed")
        if locked.job.status is JobStatus.PAUSED:
            connection.execute(RESUME, {"job_id": job_id} | _next(connection, locked.job, locked.now))
        freed = on_hold.let_go(connection, job_id, look_ahead_ms, actor)
        return freed, _begin(connection, job_id, Change.RESUME, freed.last, actor)

    first, change = database.transact(body)
    rest = on_hold.let_the_rest_go(database, job_id, look_ahead_ms, actor, after=first.last)
    unfinished_changes.end(database, job_id, change)
    return first.queues + rest


def _begin(connection: Connection, job_id: str, change: Change, last: str | None, actor: str | None) -> str | None:
    """Note that a change goes on after `last`, if it does."""
    return (
        None if last is None else unfinished_changes.begin(connection, job_id, change, Scope(actor=actor, begun=False))
    )


def _next(connection: Connection, job: Job, now: datetime) -> dict[str, object]:
    if job.timetable is None or _waits_for_its_execution(connection, job, job.timetable):
        return {"next_run_at": None, "over": False}
    tick = job.timetable.next_tick(now)
    return {"next_run_at": tick, "over": tick is None}


def _waits_for_its_execution(connection: Connection, job: Job, table: Timetable) -> bool:
    return table.fixed_delay and connection.execute(UNFINISHED, {"job_id": job.job_id}).first() is not None


def _refuse_retired(job: Job, what: str) -> None:
    if job.status is JobStatus.RETIRED:
        raise ConflictError(f"The job {job.job_id!r} is RETIRED and cannot be {what}.")
