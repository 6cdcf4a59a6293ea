"""Holding the waiting executions of a paused job back, and letting them go."""

from collections import Counter

from sqlalchemy import Connection

from app.db import Database
from app.sql import statement

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

# What was RUNNING when the job was paused and failed since. An execution that was asked for during the pause goes on.
HOLD_RETRIES = statement(
    "executions.hold_retries",
    """
    UPDATE executions AS e SET status = 'PENDING', on_hold = true
      FROM jobs AS j
     WHERE j.paused_at IS NOT NULL AND e.job_id = j.job_id AND e.completed_at IS NULL
       AND e.status = 'RETRYING' AND e.created_at <= j.paused_at
    RETURNING e.execution_id
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


def hold(connection: Connection, job_id: str) -> int:
    """Hold back what a job has not begun; returns how many executions that were."""
    return len(connection.execute(HOLD, {"job_id": job_id}).all())


def hold_retries(database: Database) -> int:
    """Hold back the retries of paused jobs; returns how many executions that were."""
    return len(database.fetch(HOLD_RETRIES))


def let_go(connection: Connection, job_id: str, ahead_ms: int) -> Counter[str]:
    """Let the held executions of a job be promoted and claimed again; returns how many of each queue are due."""
    rows = connection.execute(LET_GO, {"job_id": job_id, "ahead_ms": ahead_ms}).all()
    return Counter(row.queue for row in rows if row.status == "QUEUED")
