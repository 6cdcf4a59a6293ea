"""Job cancellation: retires the job and cancels its executions that have not begun.

Executions of a repeating job that have begun run to their end, retries included; a pause no longer holds them.
"""

from typing import NamedTuple

from sqlalchemy import Connection

from app.kernel.db import Database
from app.kernel.errors import JobNotFoundError
from app.kernel.sql import statement
from app.queue.ending.execution_events import ChangeReason
from app.queue.executions import execution_cancellation, on_hold
from app.queue.executions.execution_cancellation import CancellationCounts, CancellationScope, IfRunning
from app.queue.jobs import unfinished_changes
from app.queue.jobs.unfinished_changes import Change
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


class RetirementBatch(NamedTuple):
    """First batch after a retirement: executions cancelled, last id released and id of the change if batches follow."""

    cancelled: CancellationCounts
    last_freed: str | None
    unfinished: str | None


def cancel_job(
    database: Database, job_id: str, *, if_running: IfRunning | None = None, actor: str | None = None
) -> CancellationCounts:
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
    scope = CancellationScope(actor=actor, begun=if_running is not None, running=if_running)

    def body(connection: Connection) -> RetirementBatch:
        # The job first: the scheduler locks the job before it inserts a tick, so no tick is inserted after this.
        connection.execute(RETIRE_CRON, {"job_id": job_id})
        return settle(connection, job_id, scope)

    return settle_the_rest(database, job_id, scope, database.transact(body))


def _cancel_one_shot(database: Database, job_id: str, scope: CancellationScope) -> CancellationCounts:
    def body(connection: Connection) -> CancellationCounts:
        # Executions first, the lock order of completions, so that the two never deadlock. Their end retires the job.
        done = execution_cancellation.cancel_executions_of(connection, job_id, scope)
        if not (done.ended or done.asked):
            for row in connection.execute(EXECUTIONS, {"job_id": job_id}):
                if row.status != ExecutionStatus.CANCELLED:
                    raise execution_cancellation.not_cancellable(row.execution_id, row.status)
        return done

    return database.transact(body)


def settle(connection: Connection, job_id: str, scope: CancellationScope) -> RetirementBatch:
    """Cancel one batch and release one batch of executions, in the transaction that retires their repeating job."""
    cancelled = execution_cancellation.cancel_executions_of(connection, job_id, scope)
    # With a look-ahead of 0, executions that are due later wait for the promoter.
    _, last_freed = on_hold.let_go(connection, job_id, 0, scope.actor, retired_by=scope.reason)
    change = Change.UPDATE if scope.reason is ChangeReason.JOB_UPDATED else Change.CANCEL
    change_id = unfinished_changes.begin(connection, job_id, change, scope, cancelled.last, last_freed)
    return RetirementBatch(cancelled, last_freed, change_id)


def settle_the_rest(
    database: Database, job_id: str, scope: CancellationScope, first: RetirementBatch
) -> CancellationCounts:
    """Cancel and release the following batches, one transaction each; returns the total cancelled."""
    done = execution_cancellation.cancel_the_rest(database, job_id, scope, first.cancelled)
    on_hold.let_the_rest_go(database, job_id, 0, scope.actor, after=first.last_freed, retired_by=scope.reason)
    unfinished_changes.end(database, job_id, first.unfinished)
    return done
