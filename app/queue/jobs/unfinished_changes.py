"""Unfinished changes: changes of jobs that have not reached all executions yet, so that a scheduler can finish them.

A change of a job with very many open executions takes many transactions. The first transaction changes the job and
inserts a row here; the process that reaches the last execution deletes the row. A later change of the same job replaces
the row.
"""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from app.kernel import ids
from app.kernel.db import Database
from app.kernel.errors import LockedError
from app.kernel.function_types import Stopping
from app.kernel.sql import statement
from app.kernel.unreadable import report
from app.queue.ending.execution_events import ChangeReason
from app.queue.executions import execution_cancellation, on_hold
from app.queue.executions.execution_cancellation import CancellationCounts, CancellationScope, IfRunning

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
# No request takes longer by default, so its process has ended. If it still runs, both finish the change.
CUT_OFF = statement(
    "unfinished_changes.cut_off",
    """
    SELECT job_id, change_id, change, actor, begun, running FROM unfinished_changes
     WHERE began_at < now() - INTERVAL '1 minute'
     ORDER BY job_id LIMIT :limit
    """,
)


class Change(StrEnum):
    PAUSE = "PAUSE"
    RESUME = "RESUME"
    CANCEL = "CANCEL"
    UPDATE = "UPDATE"


def begin(
    connection: Connection, job_id: str, change: Change, scope: CancellationScope, *lasts: str | None
) -> str | None:
    """Record with the first batch that batches follow after `lasts`, if any do; returns the id for `end`."""
    if not any(lasts):
        return None
    change_id = ids.change_id()
    params = {"job_id": job_id, "change_id": change_id, "change": change.value, "actor": scope.actor}
    connection.execute(BEGIN, params | {"begun": scope.begun, "running": scope.running is not None})
    return change_id


def end(database: Database, job_id: str, change_id: str | None) -> None:
    """Record that a change has reached every execution; does nothing if a later change replaced it."""
    if change_id is not None:
        database.fetch(END, {"job_id": job_id, "change_id": change_id})


def finish(
    database: Database, ahead_ms: int, *, limit: int, stopping: Stopping
) -> tuple[int, Counter[str], Sequence[str]]:
    """Finish the changes that began at least a minute ago, each from the first execution on.

    A change interrupted by `stopping` or by a locked row stays for the next run, which skips the executions already
    changed. Returns the number of finished changes, the queues to wake, and the jobs with a locked row.
    """
    finished, queues, locked = 0, Counter[str](), list[str]()
    for row in database.fetch(CUT_OFF, {"limit": limit}):
        if row.change not in Change.__members__:
            report(f"change of job {row.job_id}", ValueError(row.change))
            continue
        try:
            if not stopping():
                queues += _go_on(database, row, ahead_ms, stopping)
            if stopping():
                break
            database.fetch_unless_locked(END, {"job_id": row.job_id, "change_id": row.change_id})
        except LockedError:
            locked.append(row.job_id)
        else:
            finished += 1
    return finished, queues, locked


def _go_on(database: Database, row: Row[Any], ahead_ms: int, stopping: Stopping) -> Counter[str]:
    """Finish a change; returns the queues in which executions became claimable."""
    let_go = partial(
        on_hold.let_the_rest_go, database, row.job_id, actor=row.actor, stopping=stopping, unless_locked=True
    )
    change = Change(row.change)
    match change:
        case Change.PAUSE:
            on_hold.hold_the_rest(database, row.job_id, "", row.actor, stopping=stopping, unless_locked=True)
            return Counter()
        case Change.RESUME:
            return let_go(ahead_ms)
        case Change.CANCEL | Change.UPDATE:
            reason = ChangeReason.JOB_CANCELLED if change is Change.CANCEL else ChangeReason.JOB_UPDATED
            running = IfRunning.REQUEST if row.running else None
            scope = CancellationScope(actor=row.actor, begun=row.begun, running=running, reason=reason)
            execution_cancellation.cancel_the_rest(
                database, row.job_id, scope, CancellationCounts(0, 0, last=""), stopping=stopping, unless_locked=True
            )
            return let_go(0, retired_by=reason)
