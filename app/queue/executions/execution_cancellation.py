"""Cancellation of executions: waiting executions end at once, running executions after their attempt or an abort."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, TextClause

from app.kernel.db import Database
from app.kernel.errors import ExecutionNotCancellableError, ExecutionNotFoundError, TaskExecutorError
from app.kernel.function_types import Stopping, never
from app.kernel.sql import statement
from app.queue.ending.execution_events import ChangeReason, StateChange, record
from app.queue.ending.outbox_rows import put_ends
from app.queue.ending.subscriptions import follows_cancellation
from app.queue.executions.execution_model import key_of_tick
from app.queue.executions.settlement import settle_jobs
from schema.states import CANCELLABLE, ExecutionStatus

BATCH = 500  # executions of a job in one transaction

# Locked before the change, because the history records the previous state.
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
# Ticks that were materialised ahead, before their job was paused, and became due in the pause; the pause may not have
# put the last ones on hold yet. Their keys bound the read, since a paused job may have any number of other executions.
LOCK_TICKS_IN_PAUSE = statement(
    "executions.lock_ticks_in_pause",
    """
    SELECT execution_id, status, attempt_count, cancel_requested_at, abort_requested_at FROM executions
     WHERE job_id = :job_id AND idempotency_key > CAST(:first AS TEXT) AND idempotency_key <= CAST(:last AS TEXT)
       AND status IN ('PENDING', 'QUEUED') AND attempt_count = 0 AND (on_hold OR run_at = scheduled_at)
       AND run_at > CAST(:paused_at AS TIMESTAMPTZ) AND run_at <= CAST(:now AS TIMESTAMPTZ)
     ORDER BY execution_id LIMIT {batch} FOR UPDATE
    """,
    batch=BATCH,
)
# The UPDATE repeats the condition: a concurrent claim either comes first and is kept, or finds nothing to claim.
CANCEL = statement(
    "executions.cancel",
    """
    UPDATE executions SET status = 'CANCELLED', completed_at = now(), on_hold = false
     WHERE execution_id = ANY (CAST(:ids AS TEXT[])) AND status IN ('PENDING', 'QUEUED', 'RETRYING')
       AND (attempt_count = 0 OR CAST(:begun AS BOOLEAN))
    RETURNING execution_id, followed
    """,
)
# The next write of the attempt then ends the execution: see complete, reclaim and release.
REQUEST = statement(
    "executions.request_cancel",
    """
    UPDATE executions SET cancel_requested_at = now()
     WHERE execution_id = ANY (CAST(:ids AS TEXT[])) AND status = 'RUNNING' AND cancel_requested_at IS NULL
    RETURNING execution_id, followed
    """,
)
# The worker polls these requests twice a second (brokers.flow_state) and aborts the attempt.
REQUEST_ABORT = statement(
    "executions.request_abort",
    """
    UPDATE executions SET cancel_requested_at = COALESCE(cancel_requested_at, now()), abort_requested_at = now()
     WHERE execution_id = ANY (CAST(:ids AS TEXT[])) AND status = 'RUNNING' AND abort_requested_at IS NULL
    RETURNING execution_id, followed
    """,
)


class IfRunning(StrEnum):
    REQUEST = "request"  # no further attempt
    ABORT = "abort"  # no further attempt, and abort the current attempt


# The statement, the column that it sets, and the reason in the history.
_REQUESTS = {
    IfRunning.REQUEST: (REQUEST, "cancel_requested_at", ChangeReason.CANCEL_REQUESTED),
    IfRunning.ABORT: (REQUEST_ABORT, "abort_requested_at", ChangeReason.ABORT_REQUESTED),
}


class CancellationScope(NamedTuple):
    """Scope of a job's cancellation: `begun` includes waiting retries, `running` is the request if running."""

    actor: str | None
    begun: bool
    running: IfRunning | None = None
    reason: ChangeReason = ChangeReason.JOB_CANCELLED


class CancellationCounts(NamedTuple):
    """Counts of executions that ended and that were asked to end; more of the job follow after `last`, if any."""

    ended: int
    asked: int
    last: str | None = None


def cancel_execution(
    database: Database, execution_id: str, *, if_running: IfRunning | None, actor: str | None
) -> CancellationCounts:
    """Cancel one execution, and retire its job if it is one-shot; a cancelled execution stays as it is.

    A running execution gets the request `if_running`. Raises ExecutionNotFoundError, or ExecutionNotCancellableError
    for an execution that has succeeded or failed, or is running and `if_running` is None.
    """

    def body(connection: Connection) -> CancellationCounts:
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
) -> tuple[CancellationCounts, dict[str, TaskExecutorError]]:
    """Cancel several executions; returns counts and errors by id. With `only_changes`, no change is an error too."""
    found = {row.execution_id: row for row in connection.execute(LOCK, {"ids": sorted(execution_ids)})}
    errors = {each: _refusal(each, found.get(each), if_running, only_changes=only_changes) for each in execution_ids}
    refused = {each: error for each, error in errors.items() if error is not None}
    scope = CancellationScope(actor=actor, begun=True, running=if_running, reason=ChangeReason.CANCELLED)
    return _cancel(connection, [found[each] for each in execution_ids if each not in refused], scope), refused


def _refusal(
    execution_id: str, row: Row[Any] | None, if_running: IfRunning | None, *, only_changes: bool
) -> TaskExecutorError | None:
    if row is None:
        return ExecutionNotFoundError.of(execution_id)
    if row.status == ExecutionStatus.CANCELLED:
        message = f"The execution {execution_id!r} is already CANCELLED."
        return ExecutionNotCancellableError(message) if only_changes else None
    if row.status == ExecutionStatus.RUNNING and if_running:
        if only_changes and _is_asked(row, if_running):
            return ExecutionNotCancellableError(f"The execution {execution_id!r} was already asked to end.")
        return None
    return None if row.status in CANCELLABLE else not_cancellable(execution_id, row.status)


def cancel_executions_of(
    connection: Connection, job_id: str, scope: CancellationScope, after: str = ""
) -> CancellationCounts:
    """Cancel a batch of a job's executions, in id order after `after`."""
    running = scope.running is not None
    params = {"job_id": job_id, "begun": scope.begun, "running": running, "after": after, "limit": BATCH}
    found = connection.execute(LOCK_OF_JOB, params).all()
    done = _cancel(connection, found, scope)
    return done._replace(last=found[-1].execution_id) if len(found) == BATCH else done


def cancel_ticks_in_pause(
    connection: Connection, job_id: str, paused_at: datetime, now: datetime, actor: str | None
) -> None:
    """Cancel the ticks of a repeating job that fell into its pause: at most those of one look-ahead."""
    keys = {"first": key_of_tick(job_id, paused_at), "last": key_of_tick(job_id, now)}
    params = {"job_id": job_id, "paused_at": paused_at, "now": now, **keys}
    scope = CancellationScope(actor=actor, begun=False, reason=ChangeReason.JOB_PAUSED)
    while True:
        found = connection.execute(LOCK_TICKS_IN_PAUSE, params).all()
        _cancel(connection, found, scope)
        if len(found) < BATCH:
            return


def cancel_the_rest(
    database: Database,
    job_id: str,
    scope: CancellationScope,
    first: CancellationCounts,
    *,
    stopping: Stopping = never,
    unless_locked: bool = False,
) -> CancellationCounts:
    """Cancel the batches after the first, one transaction each, until `stopping`; returns the total counts."""
    transact = database.transact_unless_locked if unless_locked else database.transact
    ended, asked, last = first.ended, first.asked, first.last
    while last is not None and not stopping():
        database.commit_jointly()
        done = transact(partial(cancel_executions_of, job_id=job_id, scope=scope, after=last))
        ended, asked, last = ended + done.ended, asked + done.asked, done.last
    return CancellationCounts(ended, asked)


def not_cancellable(execution_id: str, status: str) -> ExecutionNotCancellableError:
    remedy = " Add `if_running=request` or `if_running=abort`." if status == ExecutionStatus.RUNNING else ""
    return ExecutionNotCancellableError(f"The execution {execution_id!r} is {status} and cannot be cancelled.{remedy}")


def _is_asked(row: Row[Any], request: IfRunning) -> bool:
    return getattr(row, _REQUESTS[request][1]) is not None


def _cancel(connection: Connection, found: Sequence[Row[Any]], scope: CancellationScope) -> CancellationCounts:
    waiting = [row for row in found if row.status in CANCELLABLE]
    running = [row for row in found if row.status == ExecutionStatus.RUNNING]
    followed = _change(connection, CANCEL, waiting, ExecutionStatus.CANCELLED, scope)
    put_ends(connection, [change for change, bits in followed if follows_cancellation(bits)], scope.reason)
    if scope.running is not None:
        request, _, reason = _REQUESTS[scope.running]
        unasked = [row for row in running if not _is_asked(row, scope.running)]
        _change(connection, request, unasked, ExecutionStatus.RUNNING, scope._replace(reason=reason))
    settle_jobs(connection, [change.execution_id for change, _ in followed])
    return CancellationCounts(len(followed), len(running))


def _change(
    connection: Connection,
    update: TextClause,
    found: Sequence[Row[Any]],
    after: ExecutionStatus,
    scope: CancellationScope,
) -> list[tuple[StateChange, int]]:
    """Execute the update and record the changes; returns each change with the bits of `followed`."""
    if not found:
        return []
    params = {"ids": [row.execution_id for row in found], "begun": scope.begun}
    followed = {row.execution_id: row.followed or 0 for row in connection.execute(update, params)}
    changes = StateChange.of_rows((row for row in found if row.execution_id in followed), after=after)
    record(connection, changes, actor=scope.actor, reason=scope.reason)
    return [(change, followed[change.execution_id]) for change in changes]
