"""Cancellation of executions: a waiting one ends at once, a running one can be asked not to retry, or be aborted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row, TextClause

from app.kernel.db import Database
from app.kernel.errors import ExecutionNotCancellableError, ExecutionNotFoundError, TaskExecutorError
from app.kernel.function_types import Stopping, never
from app.kernel.sql import statement
from app.queue.ending import execution_events
from app.queue.ending.execution_events import ChangeReason, StateChange
from app.queue.ending.outbox_rows import put_ends
from app.queue.executions.settlement import settle_jobs
from schema.states import CANCELLABLE, ExecutionStatus, Followed

BATCH = 500  # executions of a job in one transaction

# Read before they are changed: the history records the state before.
LOCK = statement(
    "executions.lock",
    """
    SELECT execution_id, status, attempt_count, cancel_requested_at, abort_requested_at
      FROM executions WHERE execution_id = ANY (CAST(:ids AS TEXT[])) ORDER BY execution_id FOR UPDATE
    """,
)
LOCK_OF_JOB = statement(
    "executions.lock_of_job",
    """
    SELECT execution_id, status, attempt_count, cancel_requested_at, abort_requested_at FROM executions
     WHERE job_id = :job_id AND completed_at IS NULL AND execution_id > :after
       AND (status IN ('PENDING', 'QUEUED', 'RETRYING') AND (attempt_count = 0 OR CAST(:begun AS BOOLEAN))
            OR status = 'RUNNING' AND CAST(:running AS BOOLEAN))
     ORDER BY execution_id LIMIT :limit FOR UPDATE
    """,
)
# Status and attempts are tested in the UPDATE too, so a claim at the same moment either comes first and is left alone,
# or comes second and finds nothing to claim.
CANCEL = statement(
    "executions.cancel",
    """
    UPDATE executions SET status = 'CANCELLED', completed_at = now(), on_hold = false
     WHERE execution_id = ANY (CAST(:ids AS TEXT[])) AND status IN ('PENDING', 'QUEUED', 'RETRYING')
       AND (attempt_count = 0 OR CAST(:begun AS BOOLEAN))
    RETURNING execution_id, followed
    """,
)
# The next write about the attempt then ends the execution: see conclude, reclaim and release.
REQUEST = statement(
    "executions.request_cancel",
    """
    UPDATE executions SET cancel_requested_at = now()
     WHERE execution_id = ANY (CAST(:ids AS TEXT[])) AND status = 'RUNNING' AND cancel_requested_at IS NULL
    RETURNING execution_id, followed
    """,
)
# Its worker looks for such requests twice a second (app.queue.claiming.endpoint_rules), and breaks the attempt off.
REQUEST_ABORT = statement(
    "executions.request_abort",
    """
    UPDATE executions SET cancel_requested_at = COALESCE(cancel_requested_at, now()), abort_requested_at = now()
     WHERE execution_id = ANY (CAST(:ids AS TEXT[])) AND status = 'RUNNING' AND abort_requested_at IS NULL
    RETURNING execution_id, followed
    """,
)


class IfRunning(StrEnum):
    """What a cancellation asks of an execution that is running."""

    REQUEST = "request"  # no other attempt
    ABORT = "abort"  # to break the present attempt off, too


_ASKING = {
    IfRunning.REQUEST: (REQUEST, ChangeReason.CANCEL_REQUESTED),
    IfRunning.ABORT: (REQUEST_ABORT, ChangeReason.ABORT_REQUESTED),
}


@dataclass(frozen=True, slots=True)
class _Locked:
    """An execution whose row is locked."""

    execution_id: str
    status: ExecutionStatus
    attempt_count: int
    asked: frozenset[IfRunning]

    @classmethod
    def from_row(cls, row: Row[Any]) -> "_Locked":
        since = {IfRunning.REQUEST: row.cancel_requested_at, IfRunning.ABORT: row.abort_requested_at}
        asked = frozenset(what for what, at in since.items() if at is not None)
        return cls(row.execution_id, ExecutionStatus(row.status), row.attempt_count, asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellationScope:
    """Which executions of a job are cancelled, by whom and why.

    `begun` includes those that wait for another attempt, `running` is what the running ones are asked; None: nothing.
    """

    actor: str | None
    begun: bool
    running: IfRunning | None = None
    reason: ChangeReason = ChangeReason.JOB_CANCELLED


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Counts of executions: those that ended, and those that run and were asked to end.

    More of the job follow after `last`; there are no more when it is None.
    """

    ended: int
    asked: int
    last: str | None = None


def cancel_execution(
    database: Database, execution_id: str, *, if_running: IfRunning | None, actor: str | None
) -> Cancelled:
    """Cancel one execution, and retire its job if it is one-shot; does nothing to one that is cancelled already.

    A running one is only asked to end, and only with `if_running`. Raises ExecutionNotFoundError, or
    ExecutionNotCancellableError for one that is over, or running without `if_running`.
    """

    def body(connection: Connection) -> Cancelled:
        done, refused = cancel_executions(connection, [execution_id], if_running=if_running, actor=actor)
        for error in refused.values():
            raise error
        return done

    return database.transact(body)


def cancel_executions(
    connection: Connection,
    execution_ids: Sequence[str],
    *,
    if_running: IfRunning | None,
    actor: str | None,
    only_changes: bool = False,
) -> tuple[Cancelled, dict[str, TaskExecutorError]]:
    """Do the same for several; returns by their ids why the others are left as they are.

    With `only_changes` also those that are cancelled already, or were asked to end in this way before.
    """
    rows = connection.execute(LOCK, {"ids": sorted(execution_ids)})
    found = {row.execution_id: _Locked.from_row(row) for row in rows}
    refusals = {each: _refusal(each, found.get(each), if_running) for each in execution_ids}
    if only_changes:
        refusals = {each: error or _unchanged(found[each], if_running) for each, error in refusals.items()}
    refused = {each: error for each, error in refusals.items() if error is not None}
    scope = CancellationScope(actor=actor, begun=True, running=if_running, reason=ChangeReason.CANCELLED)
    return _cancel(connection, [found[each] for each in execution_ids if each not in refused], scope), refused


def _refusal(execution_id: str, found: _Locked | None, if_running: IfRunning | None) -> TaskExecutorError | None:
    """Say why an execution cannot be cancelled, or None."""
    if found is None:
        return ExecutionNotFoundError.of(execution_id)
    if found.status in CANCELLABLE or (found.status is ExecutionStatus.RUNNING and if_running):
        return None
    return not_cancellable(execution_id, found.status)


def _unchanged(found: _Locked, if_running: IfRunning | None) -> TaskExecutorError | None:
    """Say why a cancellation would change nothing of an execution, or None."""
    if found.status is ExecutionStatus.CANCELLED:
        return ExecutionNotCancellableError(f"The execution {found.execution_id!r} is CANCELLED already.")
    if found.status is ExecutionStatus.RUNNING and if_running in found.asked:
        return ExecutionNotCancellableError(f"The execution {found.execution_id!r} was asked to end already.")
    return None


def cancel_executions_of(connection: Connection, job_id: str, scope: CancellationScope, after: str = "") -> Cancelled:
    """Cancel a batch of the executions of a job, from behind `after` on."""
    running = scope.running is not None
    params = {"job_id": job_id, "begun": scope.begun, "running": running, "after": after, "limit": BATCH}
    found = [_Locked.from_row(row) for row in connection.execute(LOCK_OF_JOB, params)]
    done = _cancel(connection, found, scope)
    return replace(done, last=found[-1].execution_id) if len(found) == BATCH else done


def cancel_the_rest(
    database: Database,
    job_id: str,
    scope: CancellationScope,
    first: Cancelled,
    *,
    stopping: Stopping = never,
) -> Cancelled:
    """Cancel what follows the first batch, each batch in a transaction of its own; returns the counts of all.

    Nothing more once `stopping`, which is asked before each batch.
    """
    ended, asked, last = first.ended, first.asked, first.last
    while last is not None and not stopping():
        database.commit_jointly()
        done = database.transact(partial(cancel_executions_of, job_id=job_id, scope=scope, after=last))
        ended, asked, last = ended + done.ended, asked + done.asked, done.last
    return Cancelled(ended, asked)


def not_cancellable(execution_id: str, status: ExecutionStatus) -> ExecutionNotCancellableError | None:
    """Return why an execution in this state cannot be cancelled, None where it is cancelled already."""
    if status is ExecutionStatus.CANCELLED:
        return None
    return ExecutionNotCancellableError(f"The execution {execution_id!r} is {status} and cannot be cancelled.")


def _cancel(connection: Connection, found: Sequence[_Locked], scope: CancellationScope) -> Cancelled:
    waiting = [execution for execution in found if execution.status in CANCELLABLE]
    running = [execution for execution in found if execution.status is ExecutionStatus.RUNNING]
    ended = _change(connection, CANCEL, waiting, ExecutionStatus.CANCELLED, scope)
    if scope.running is not None:
        ask, reason = _ASKING[scope.running]
        unasked = [execution for execution in running if scope.running not in execution.asked]
        _change(connection, ask, unasked, ExecutionStatus.RUNNING, replace(scope, reason=reason))
    settle_jobs(connection, ended)
    return Cancelled(len(ended), len(running))


def _change(
    connection: Connection,
    change: TextClause,
    found: Sequence[_Locked],
    after: ExecutionStatus,
    scope: CancellationScope,
) -> list[str]:
    if not found:
        return []
    wanted = {"ids": [execution.execution_id for execution in found], "begun": scope.begun}
    changed = {row.execution_id: row.followed or 0 for row in connection.execute(change, wanted)}
    changes = [
        StateChange(execution.execution_id, execution.status, after, execution.attempt_count)
        for execution in found
        if execution.execution_id in changed
    ]
    execution_events.record(connection, changes, actor=scope.actor, reason=scope.reason)
    if after is ExecutionStatus.CANCELLED:
        followed = [one for one in changes if changed[one.execution_id] & Followed.CANCELLATION]
        put_ends(connection, followed, scope.reason)
    return [made.execution_id for made in changes]
