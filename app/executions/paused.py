"""Paused jobs: hold their waiting executions back, and let them go again."""

from collections import Counter

from sqlalchemy import Connection

from app.db import Database
from app.executions import events
from app.executions.events import Reason, StateChange
from app.sql import statement
from schema.states import ExecutionStatus

# `on_hold` takes a PENDING row out of the promoter's index; it can neither be claimed nor promoted. run_at stays.
HOLD = statement(
    "executions.hold",
    """
    WITH waiting AS MATERIALIZED (
      SELECT execution_id, status FROM executions
       WHERE job_id = :job_id AND completed_at IS NULL AND status IN ('PENDING', 'QUEUED', 'RETRYING') AND NOT on_hold
       ORDER BY execution_id FOR UPDATE)
    UPDATE executions AS e SET status = 'PENDING', on_hold = true
      FROM waiting
     WHERE e.execution_id = waiting.execution_id AND e.status IN ('PENDING', 'QUEUED', 'RETRYING')
    RETURNING e.execution_id, waiting.status, e.attempt_count
    """,
)

# Executions that were RUNNING when the job was paused and have failed since. One requested during the pause goes on.
RETRIES = statement(
    "executions.retries_of_paused_jobs",
    """
    SELECT e.execution_id, e.job_id FROM jobs AS j JOIN executions AS e ON e.job_id = j.job_id
     WHERE j.paused_at IS NOT NULL AND e.completed_at IS NULL
       AND e.status = 'RETRYING' AND e.created_at <= j.paused_at
     ORDER BY e.execution_id LIMIT 500
    """,
)
# A resume locks the job too: it comes first, and the job is not paused any more, or it comes second and lets these go.
HOLD_RETRIES = statement(
    "executions.hold_retries",
    """
    WITH paused AS MATERIALIZED (
      SELECT job_id, paused_at FROM jobs
       WHERE job_id = ANY (CAST(:jobs AS TEXT[])) AND paused_at IS NOT NULL
       ORDER BY job_id FOR SHARE)
    UPDATE executions AS e SET status = 'PENDING', on_hold = true
      FROM paused AS j
     WHERE e.execution_id = ANY (CAST(:ids AS TEXT[])) AND j.job_id = e.job_id
       AND e.status = 'RETRYING' AND e.created_at <= j.paused_at
    RETURNING e.execution_id, e.attempt_count
    """,
)

LET_GO = statement(
    "executions.let_go",
    """
    UPDATE executions AS e
       SET on_hold = false,
           status = CASE WHEN e.run_at > now() + CAST(:ahead_ms AS BIGINT) * INTERVAL '1 millisecond'
                         THEN 'PENDING' ELSE 'QUEUED' END
     WHERE e.job_id = :job_id AND e.completed_at IS NULL AND e.status = 'PENDING' AND e.on_hold
    RETURNING e.execution_id, e.status, e.queue, e.attempt_count
    """,
)

# On hold although their job goes on: no statement of ours leaves that, and nothing else would find them.
ASTRAY = statement(
    "executions.held_astray",
    """
    SELECT DISTINCT j.job_id FROM jobs AS j JOIN executions AS e ON e.job_id = j.job_id
     WHERE j.job_id > :after AND j.job_id <= :last AND j.status = 'ACTIVE'
       AND e.completed_at IS NULL AND e.on_hold
     ORDER BY j.job_id
    """,
)
STILL_ACTIVE = statement(
    "jobs.still_active", "SELECT job_id FROM jobs WHERE job_id = :job_id AND status = 'ACTIVE' FOR SHARE"
)


def hold(connection: Connection, job_id: str, actor: str | None) -> int:
    """Hold back the waiting executions of a job; returns how many there were."""
    rows = connection.execute(HOLD, {"job_id": job_id}).all()
    changes = [
        StateChange(row.execution_id, ExecutionStatus(row.status), ExecutionStatus.PENDING, row.attempt_count)
        for row in rows
    ]
    events.record(connection, changes, actor=actor, reason=Reason.JOB_PAUSED)
    return len(rows)


def hold_retries(database: Database) -> int:
    """Hold back the retries of paused jobs; returns how many there were."""
    found = database.fetch(RETRIES)
    if not found:
        return 0
    params = {"ids": [row.execution_id for row in found], "jobs": sorted({row.job_id for row in found})}

    def body(connection: Connection) -> int:
        rows = connection.execute(HOLD_RETRIES, params).all()
        changes = [
            StateChange(row.execution_id, ExecutionStatus.RETRYING, ExecutionStatus.PENDING, row.attempt_count)
            for row in rows
        ]
        events.record(connection, changes, actor=None, reason=Reason.JOB_PAUSED)
        return len(rows)

    return database.transact(body)


def let_go(connection: Connection, job_id: str, ahead_ms: int, actor: str | None) -> Counter[str]:
    """Let the held executions of a job go; returns how many of each queue are queued by that."""
    rows = connection.execute(LET_GO, {"job_id": job_id, "ahead_ms": ahead_ms}).all()
    changes = [
        StateChange(row.execution_id, ExecutionStatus.PENDING, ExecutionStatus(row.status), row.attempt_count)
        for row in rows
    ]
    events.record(connection, changes, actor=actor, reason=Reason.JOB_RESUMED)
    return Counter(row.queue for row in rows if row.status == ExecutionStatus.QUEUED)


def held_astray(database: Database, *, after: str, last: str) -> list[str]:
    """Return the ACTIVE jobs of a stretch of which executions are on hold."""
    return [row.job_id for row in database.fetch(ASTRAY, {"after": after, "last": last})]


def let_go_astray(database: Database, job_id: str, ahead_ms: int) -> Counter[str]:
    """Let the held executions of a job go unless it was paused meanwhile; returns how many of each queue are queued."""

    def body(connection: Connection) -> Counter[str]:
        if connection.execute(STILL_ACTIVE, {"job_id": job_id}).first() is None:
            return Counter()
        return let_go(connection, job_id, ahead_ms, None)

    return database.transact(body)
