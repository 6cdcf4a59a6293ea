"""Retirement of a repeating job that is cancelled or updated.

Executions that have not begun are cancelled. Executions that have begun run to their end, retries included; a pause no
longer holds them.
"""

from dataclasses import dataclass

from sqlalchemy import Connection

from app.kernel.db import Database
from app.queue.ending.execution_events import ChangeReason
from app.queue.executions import execution_cancellation, on_hold
from app.queue.executions.execution_cancellation import CancellationScope, Cancelled
from app.queue.executions.on_hold import Freed
from app.queue.jobs import unfinished_changes as unfinished
from app.queue.jobs.unfinished_changes import Change


@dataclass(frozen=True, slots=True)
class Settled:
    """Result of the first batch: executions cancelled and released, and the id of the change if batches follow."""

    cancelled: Cancelled
    freed: Freed
    unfinished: str | None


def settle(connection: Connection, job_id: str, scope: CancellationScope) -> Settled:
    """Cancel one batch and release one batch, in the transaction that retires the job."""
    cancelled = execution_cancellation.cancel_executions_of(connection, job_id, scope)
    # With a look-ahead of 0, executions that are due later wait for the promoter.
    freed = on_hold.let_go(connection, job_id, 0, scope.actor, retired_by=scope.reason)
    if cancelled.last is None and freed.last is None:
        return Settled(cancelled, freed, None)
    change = Change.UPDATE if scope.reason is ChangeReason.JOB_UPDATED else Change.CANCEL
    return Settled(cancelled, freed, unfinished.begin(connection, job_id, change, scope))


def settle_the_rest(database: Database, job_id: str, scope: CancellationScope, first: Settled) -> Cancelled:
    """Cancel and release the following batches, one transaction each; returns the total cancelled."""
    done = execution_cancellation.cancel_the_rest(database, job_id, scope, first.cancelled)
    on_hold.let_the_rest_go(database, job_id, 0, scope.actor, after=first.freed.last, retired_by=scope.reason)
    unfinished.end(database, job_id, first.unfinished)
    return done
