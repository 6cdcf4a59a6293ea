"""What becomes of the executions of a repeating job that is cancelled or updated.

What has not begun is cancelled. What was attempted before runs to its end, its retries included, also where a pause
held it back.
"""

from dataclasses import dataclass

from sqlalchemy import Connection

from app.kernel.db import Database
from app.queue.ending.execution_events import Reason
from app.queue.executions import execution_cancellation, on_hold
from app.queue.executions.execution_cancellation import Cancelled, Scope
from app.queue.executions.on_hold import Freed
from app.queue.jobs import unfinished_changes as unfinished
from app.queue.jobs.unfinished_changes import Change


@dataclass(frozen=True, slots=True)
class Settled:
    """The first batch: what was cancelled of it and let go, and the note that others follow."""

    cancelled: Cancelled
    freed: Freed
    unfinished: str | None


def settle(connection: Connection, job_id: str, scope: Scope) -> Settled:
    """Cancel and let go a batch each, in the transaction that retires the job."""
    cancelled = execution_cancellation.cancel_executions_of(connection, job_id, scope)
    # What is due later waits for the promoter, and nobody is in a hurry here.
    freed = on_hold.let_go(connection, job_id, 0, scope.actor, retired_by=scope.reason)
    if cancelled.last is None and freed.last is None:
        return Settled(cancelled, freed, None)
    change = Change.UPDATE if scope.reason is Reason.JOB_UPDATED else Change.CANCEL
    return Settled(cancelled, freed, unfinished.begin(connection, job_id, change, scope))


def settle_the_rest(database: Database, job_id: str, scope: Scope, first: Settled) -> Cancelled:
    """Cancel and let go what follows, each batch in a transaction of its own; returns all that was cancelled."""
    done = execution_cancellation.cancel_the_rest(database, job_id, scope, first.cancelled)
    on_hold.let_the_rest_go(database, job_id, 0, scope.actor, after=first.freed.last, retired_by=scope.reason)
    unfinished.end(database, job_id, first.unfinished)
    return done
