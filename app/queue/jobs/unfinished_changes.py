"""Unfinished changes: jobs of which a change has not reached all executions yet, so that a scheduler can end it.

A change of a job with very many open executions takes many transactions. The first one changes the job and leaves a row
here; whoever has reached the last execution takes the row away. A later change of the same job takes the row over.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row

from app.kernel import ids
from app.kernel.db import Database
from app.kernel.sql import statement
from app.queue.ending.execution_events import Reason
from app.queue.executions import execution_cancellation, on_hold
from app.queue.executions.execution_cancellation import Cancelled, IfRunning, Scope

BEGIN = statement(
    "unfinished_changes.begin",
    """
    INSERT INTO unfinished_changes (job_id, change_id, change, actor, begun, running)
    VALUES (:job_id, :change_id, :change, :actor, :begun, :running)
    ON CONFLICT (job_id) DO UPDATE
       SET change_id = excluded.change_id, change = excluded.change, actor = excluded.actor, begun = excluded.begun,
           running = excluded.running, began_at = now()
    """,
)
END = statement(
    "unfinished_changes.end",
    "DELETE FROM unfinished_changes WHERE job_id = :job_id AND change_id = :change_id",
)
# By default no request takes longer, so whoever began it has been cut off. Should it go on all the same, both do it.
CUT_OFF = statement(
    "unfinished_changes.cut_off",
    """
    SELECT job_id, change_id, change, actor, begun, running FROM unfinished_changes
     WHERE began_at < now() - INTERVAL '1 minute'
     ORDER BY job_id LIMIT :limit
    """,
)


class Change(StrEnum):
    """What is done to the executions of a job."""

    PAUSE = "PAUSE"
    RESUME = "RESUME"
    CANCEL = "CANCEL"
    UPDATE = "UPDATE"


@dataclass(frozen=True, slots=True)
class Finished:
    """How many changes a scheduler has ended, and the queues to wake."""

    changes: int
    queues: Counter[str]


def begin(connection: Connection, job_id: str, change: Change, scope: Scope) -> str:
    """Note in the transaction of the first batch that others follow; returns the id to `end` it with."""
    change_id = ids.change_id()
    params = {"job_id": job_id, "change_id": change_id, "change": change.value, "actor": scope.actor}
    connection.execute(BEGIN, params | {"begun": scope.begun, "running": scope.running is not None})
    return change_id


def end(database: Database, job_id: str, change_id: str | None) -> None:
    """Note that a change has reached every execution; does nothing where another change took over."""
    if change_id is not None:
        database.fetch(END, {"job_id": job_id, "change_id": change_id})


def finish(database: Database, ahead_ms: int, *, limit: int, stopping: Callable[[], bool]) -> Finished:
    """End the changes that began a minute ago or earlier, each from the first execution on.

    One that `stopping` breaks off between two batches stays for the next run, which does not meet again what this one
    has changed.
    """
    finished, queues = 0, Counter[str]()
    for row in database.fetch(CUT_OFF, {"limit": limit}):
        if not stopping():
            queues += _go_on(database, row, ahead_ms, stopping)
        if stopping():
            break
        end(database, row.job_id, row.change_id)
        finished += 1
    return Finished(finished, queues)


def _go_on(database: Database, row: Row[Any], ahead_ms: int, stopping: Callable[[], bool]) -> Counter[str]:
    """Do what is left of a change; returns the queues in which something became claimable."""
    change = Change(row.change)
    match change:
        case Change.PAUSE:
            on_hold.hold_the_rest(database, row.job_id, "", row.actor, stopping=stopping)
            return Counter()
        case Change.RESUME:
            return on_hold.let_the_rest_go(database, row.job_id, ahead_ms, row.actor, stopping=stopping)
        case Change.CANCEL | Change.UPDATE:
            reason = Reason.JOB_CANCELLED if change is Change.CANCEL else Reason.JOB_UPDATED
            running = IfRunning.REQUEST if row.running else None
            scope = Scope(actor=row.actor, begun=row.begun, running=running, reason=reason)
            execution_cancellation.cancel_the_rest(
                database, row.job_id, scope, Cancelled(0, 0, last=""), stopping=stopping
            )
            return on_hold.let_the_rest_go(database, row.job_id, 0, row.actor, retired_by=reason, stopping=stopping)
