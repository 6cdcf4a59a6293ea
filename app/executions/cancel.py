"""Cancelling executions that have not begun; a running one is its worker's."""

from sqlalchemy import Connection

from app.db import Database
from app.errors import ExecutionNotCancellableError, ExecutionNotFoundError
from app.sql import statement
from schema.states import ExecutionStatus

# The status is tested in the UPDATE, so a claim at the same moment either comes first and is left alone, or comes
# second and finds nothing to claim.
CANCEL_ONE = statement(
    "executions.cancel_one",
    """
    UPDATE executions SET status = 'CANCELLED', completed_at = now(), on_hold = false
     WHERE execution_id = :execution_id AND status IN ('PENDING', 'QUEUED', 'RETRYING')
    RETURNING job_id
    """,
)
CANCEL_OF_JOB = statement(
    "executions.cancel_of_job",
    """
    UPDATE executions SET status = 'CANCELLED', completed_at = now(), on_hold = false
     WHERE job_id = :job_id AND status IN ('PENDING', 'QUEUED', 'RETRYING')
    RETURNING execution_id
    """,
)
STATUS = statement("executions.status", "SELECT status FROM executions WHERE execution_id = :execution_id")
# Executions before jobs, the order in which conclusions lock them too.
RETIRE_ONE_SHOT = statement(
    "executions.retire_one_shot",
    """
    UPDATE jobs SET status = 'RETIRED', retired_at = now(), paused_at = NULL
     WHERE job_id = :job_id AND trigger_type IN ('IMMEDIATE', 'DELAYED') AND status <> 'RETIRED'
    """,
)


def cancel(database: Database, execution_id: str) -> None:
    """Cancel one execution, and retire its job if that was all of it; does nothing to one cancelled before.

    Raises ExecutionNotFoundError, or ExecutionNotCancellableError for one that is running or over.
    """

    def body(connection: Connection) -> None:
        params = {"execution_id": execution_id}
        row = connection.execute(CANCEL_ONE, params).first()
        if row is not None:
            connection.execute(RETIRE_ONE_SHOT, {"job_id": row.job_id})
            return
        status = connection.execute(STATUS, params).scalar()
        if status is None:
            raise ExecutionNotFoundError(f"Execution with ID {execution_id!r} does not exist.")
        refuse_unless_cancelled(execution_id, ExecutionStatus(status))

    database.transact(body)


def cancel_of_job(connection: Connection, job_id: str) -> int:
    """Cancel what a job has not begun; returns how many executions that were."""
    return len(connection.execute(CANCEL_OF_JOB, {"job_id": job_id}).all())


def refuse_unless_cancelled(execution_id: str, status: ExecutionStatus) -> None:
    """Raise ExecutionNotCancellableError, unless the execution is cancelled already."""
    if status is not ExecutionStatus.CANCELLED:
        raise ExecutionNotCancellableError(f"The execution {execution_id!r} is {status} and cannot be cancelled.")
