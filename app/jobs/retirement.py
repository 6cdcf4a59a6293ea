"""What becomes of the executions of a repeating job that is cancelled or updated.

What has not begun is cancelled. What was attempted before runs to its end, its retries included, also where a pause
held it back.
"""

from dataclasses import dataclass

from sqlalchemy import Connection

from app.db import Database
from app.executions import cancellation, waiting
from app.executions.cancellation import Cancelled, Scope


@dataclass(frozen=True, slots=True)
class Settled:
    """The first batch: what was cancelled of it, and whether more is held back than was let go."""

    cancelled: Cancelled
    holds_more: bool


def settle(connection: Connection, job_id: str, scope: Scope) -> Settled:
    """Cancel and let go a batch each, in the transaction that retires the job."""
    cancelled = cancellation.cancel_executions_of(connection, job_id, scope)
    # What is due later waits for the promoter, and nobody is in a hurry here.
    freed = waiting.let_go(connection, job_id, 0, scope.actor, retired_by=scope.reason)
    return Settled(cancelled, freed.total() == waiting.BATCH)


def settle_the_rest(database: Database, job_id: str, scope: Scope, first: Settled) -> Cancelled:
    """Cancel and let go what follows, each batch in a transaction of its own; returns all that was cancelled."""
    done = cancellation.cancel_the_rest(database, job_id, scope, first.cancelled)
    if first.holds_more:
        waiting.let_the_rest_go(database, job_id, 0, scope.actor, retired_by=scope.reason)
    return done
