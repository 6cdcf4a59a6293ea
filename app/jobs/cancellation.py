"""Cancellation of a job: it is retired, its waiting executions are cancelled, a running one continues."""

from sqlalchemy import Connection

from app.db import Database
from app.errors import JobNotFoundError
from app.executions import cancellation
from app.executions.cancellation import Cancelled
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


def cancel_job(database: Database, job_id: str, *, ask_running: bool = False, actor: str | None = None) -> Cancelled:
    """Cancel a job; does nothing if it is cancelled already. With `ask_running`, what runs is asked not to retry.

    The job is retired with the first batch of its executions. Where the others are not reached, a repetition goes on.

    Raises JobNotFoundError, or ExecutionNotCancellableError for a one-shot job whose execution is over, or running
    without `ask_running`.
    """
    first = database.transact(lambda connection: _cancel(connection, job_id, ask_running, actor))
    return cancellation.cancel_the_rest(database, job_id, first, actor=actor, ask_running=ask_running)


def _cancel(connection: Connection, job_id: str, ask_running: bool, actor: str | None) -> Cancelled:
    trigger = connection.execute(TRIGGER, {"job_id": job_id}).scalar()
    if trigger is None:
        raise JobNotFoundError.of(job_id)
    if Trigger(trigger).repeats:
        # The job first: the scheduler, which locks it before it inserts a tick, is then either done or too late.
        connection.execute(RETIRE_CRON, {"job_id": job_id})
        return cancellation.cancel_executions_of(connection, job_id, ask_running=ask_running, actor=actor)
    # Executions first, as conclusions do, so that the two never deadlock; they retire the job.
    done = cancellation.cancel_executions_of(connection, job_id, ask_running=ask_running, actor=actor)
    if not (done.ended or done.asked):
        for row in connection.execute(EXECUTIONS, {"job_id": job_id}):
            cancellation.refuse_unless_cancelled(row.execution_id, ExecutionStatus(row.status))
    return done
