"""Job cancellation: retires the job and cancels its executions that have not begun.

Executions of a repeating job that have begun run to their end.
"""

from sqlalchemy import Connection

from app.kernel.db import Database
from app.kernel.errors import JobNotFoundError
from app.kernel.sql import statement
from app.queue.executions import execution_cancellation
from app.queue.executions.execution_cancellation import CancellationScope, Cancelled, IfRunning
from app.queue.jobs import job_retirement
from app.queue.jobs.job_retirement import Settled
from schema.states import ExecutionStatus, Trigger

TRIGGER = statement("jobs.trigger", "SELECT trigger_type FROM jobs WHERE job_id = :job_id")
RETIRE_CRON = statement(
    "jobs.retire_cron",
    """
    UPDATE jobs SET status = 'RETIRED', retired_at = now(), paused_at = NULL, cron_next_run_at = NULL,
                    ended_at = now(), end_reason = 'CANCELLED'
     WHERE job_id = :job_id AND status <> 'RETIRED'
    """,
)
EXECUTIONS = statement("jobs.executions", "SELECT execution_id, status FROM executions WHERE job_id = :job_id")


def cancel_job(
    database: Database, job_id: str, *, if_running: IfRunning | None = None, actor: str | None = None
) -> Cancelled:
    """Cancel a job; a cancelled job stays as it is. With `if_running`, no execution is attempted again.

    The first batch of executions is cancelled with the job. If the process ends before the last batch, a repeated
    request continues, or a scheduler does. The scheduler allows no further attempts, but aborts no running attempt.

    Raises JobNotFoundError. Raises ExecutionNotCancellableError for a one-shot job whose execution has ended, or is
    running and `if_running` is not given.
    """
    trigger = next(iter(database.fetch(TRIGGER, {"job_id": job_id})), None)
    if trigger is None:
        raise JobNotFoundError.of(job_id)
    if not Trigger(trigger.trigger_type).repeats:
        return _cancel_one_shot(database, job_id, CancellationScope(actor=actor, begun=True, running=if_running))
    return _cancel_repeating(
        database, job_id, CancellationScope(actor=actor, begun=if_running is not None, running=if_running)
    )


def _cancel_repeating(database: Database, job_id: str, scope: CancellationScope) -> Cancelled:
    def body(connection: Connection) -> Settled:
        # The job first: the scheduler locks the job before it inserts a tick, so no tick is inserted after this.
        connection.execute(RETIRE_CRON, {"job_id": job_id})
        return job_retirement.settle(connection, job_id, scope)

    return job_retirement.settle_the_rest(database, job_id, scope, database.transact(body))


def _cancel_one_shot(database: Database, job_id: str, scope: CancellationScope) -> Cancelled:
    def body(connection: Connection) -> Cancelled:
        # Executions first, the lock order of completions, so that the two never deadlock. Their end retires the job.
        done = execution_cancellation.cancel_executions_of(connection, job_id, scope)
        if not (done.ended or done.asked):
            for row in connection.execute(EXECUTIONS, {"job_id": job_id}):
                error = execution_cancellation.not_cancellable(row.execution_id, ExecutionStatus(row.status))
                if error is not None:
                    raise error
        return done

    return database.transact(body)
