"""Cancelling a job: what has not begun is cancelled, the job is retired, a running execution is left alone."""

from sqlalchemy import Connection

from app.db import Database
from app.errors import JobNotFoundError
from app.executions import cancel as executions
from app.sql import statement
from schema.states import ExecutionStatus, Trigger

TRIGGER = statement("jobs.trigger", "SELECT trigger_type FROM jobs WHERE job_id = :job_id")
RETIRE_CRON = statement(
    "jobs.retire_cron",
    """
    UPDATE jobs SET status = 'RETIRED', retired_at = now(), paused_at = NULL, cron_next_run_at = NULL
     WHERE job_id = :job_id AND status <> 'RETIRED'
    """,
)
EXECUTIONS = statement("jobs.executions", "SELECT execution_id, status FROM executions WHERE job_id = :job_id")


def cancel(database: Database, job_id: str) -> None:
    """Cancel a job; does nothing to one cancelled before.

    Raises JobNotFoundError, or ExecutionNotCancellableError for a one-shot job whose execution is running or over.
    """
    database.transact(lambda connection: _cancel(connection, job_id))


def _cancel(connection: Connection, job_id: str) -> None:
    trigger = connection.execute(TRIGGER, {"job_id": job_id}).scalar()
    if trigger is None:
        raise JobNotFoundError(f"Job with ID {job_id!r} does not exist.")
    if trigger == Trigger.CRON:
        # The job first: the scheduler, which locks it before it inserts a tick, is then either done or too late.
        connection.execute(RETIRE_CRON, {"job_id": job_id})
        executions.cancel_of_job(connection, job_id)
        return
    # Executions first, like conclusions, so that the two never wait for each other.
    if not executions.cancel_of_job(connection, job_id):
        for row in connection.execute(EXECUTIONS, {"job_id": job_id}):
            executions.refuse_unless_cancelled(row.execution_id, ExecutionStatus(row.status))
    connection.execute(executions.RETIRE_ONE_SHOT, {"job_id": job_id})
