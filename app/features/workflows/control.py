"""Control of workflows: pause, resume and cancel. Each is one transaction, whose size no workflow changes.

A step may change the workflow at the same moment: the row lock orders both, and without it the revision decides.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy import Connection

from app.features.workflows.steps.cancelling import NO_REQUEST
from app.features.workflows.stored.status_changes import StatusChange, record_event, recorded
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.db.rows import RowValue
from app.kernel.errors import ConflictError, UnavailableError, WorkflowNotFoundError
from app.kernel.sql import statement
from app.queue.executions.execution_cancellation import IfRunning
from schema.states import FINAL_OF_WORKFLOW, WorkflowReason, WorkflowStatus

MAX_TRIES = 20
_STRENGTH = (NO_REQUEST, IfRunning.REQUEST.value, IfRunning.ABORT.value)

IS_LATE = """deadline_at IS NOT NULL AND ended_at IS NULL AND status <> 'COMPENSATING'
       AND COALESCE(reason, 'NODE_FAILED') = 'NODE_FAILED' AND deadline_at <= now()"""
"""Condition of workflows whose deadline has passed and has an effect: none on a cancellation or a compensation."""

LOCK = statement(
    "workflows.lock_for_control",
    """
    SELECT workflow_id, status, reason, cancelling, revision, COALESCE({is_late}, false) AS is_late FROM workflows
     WHERE workflow_id = :workflow_id ORDER BY workflow_id LIMIT 1 FOR UPDATE
    """,
    is_late=IS_LATE,
)
CHANGE = statement(
    "workflows.control",
    """
    UPDATE workflows
       SET status = :status, reason = :reason, cancelling = CAST(:cancelling AS TEXT), revision = revision + 1
     WHERE workflow_id = :workflow_id AND revision = :revision AND ended_at IS NULL
    RETURNING revision
    """,
)

_Decide = Callable[["_Control"], "_Control"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Control(RowValue):
    """Columns of a workflow that a control changes, and whether its deadline stops it."""

    status: WorkflowStatus
    reason: WorkflowReason | None
    cancelling: str | None
    is_late: bool


class _ControlOvertakenError(Exception):
    """Another process changed the workflow since it was read."""


def pause(database: Database, workflow_id: str, *, actor: str | None) -> None:
    """Pause a workflow: starts no node until it is resumed; a paused workflow stays as it is.

    Raises WorkflowNotFoundError, or ConflictError for a workflow that stops or has ended.
    """

    def decide(found: _Control) -> _Control:
        if found.status not in {WorkflowStatus.RUNNING, WorkflowStatus.PAUSED}:
            raise ConflictError(f"The workflow {workflow_id!r} is {found.status} and cannot be paused.")
        return replace(found, status=WorkflowStatus.PAUSED)

    _change(database, workflow_id, decide, actor=actor)


def resume(database: Database, workflow_id: str, *, actor: str | None, event_id: str | None = None) -> None:
    """Resume a paused workflow; it is STOPPING afterwards if a node failed in between.

    A second call with the same `event_id` changes nothing. Raises WorkflowNotFoundError, or ConflictError for a
    workflow that is not paused.
    """

    def decide(found: _Control) -> _Control:
        if found.status is not WorkflowStatus.PAUSED:
            raise ConflictError(f"The workflow {workflow_id!r} is {found.status}, not PAUSED.")
        stops = found.reason is not None
        return replace(found, status=WorkflowStatus.STOPPING if stops else WorkflowStatus.RUNNING)

    _change(database, workflow_id, decide, actor=actor, event_id=event_id)


def cancel(database: Database, workflow_id: str, *, if_running: IfRunning | None, actor: str | None) -> None:
    """Cancel a workflow: starts no node any more, and cancels waiting executions in the steps that follow.

    A running execution gets the request `if_running`; None lets it run to its end. A cancelled workflow gets a stronger
    request only. Raises WorkflowNotFoundError, or ConflictError for a workflow that has ended otherwise.
    """
    request = NO_REQUEST if if_running is None else if_running.value

    def decide(found: _Control) -> _Control:
        if found.status is WorkflowStatus.CANCELLED:
            return found
        if found.status in FINAL_OF_WORKFLOW:
            raise ConflictError(f"The workflow {workflow_id!r} is {found.status} and cannot be cancelled.")
        is_cancelled = found.reason is WorkflowReason.CANCELLED
        stops = found.status is not WorkflowStatus.COMPENSATING
        stronger = max(request, found.cancelling or NO_REQUEST, key=_STRENGTH.index)
        if is_cancelled and if_running is None:
            return found
        status = WorkflowStatus.STOPPING if stops else WorkflowStatus.COMPENSATING
        return replace(found, status=status, reason=WorkflowReason.CANCELLED, cancelling=stronger)

    _change(database, workflow_id, decide, actor=actor)


def stop_late(database: Database, workflow_id: str) -> None:
    """Stop a workflow whose deadline has passed, running executions included.

    Nothing happens if the deadline has lost its effect: the workflow has ended, was cancelled, compensates, or was
    retried with a new deadline. Raises WorkflowNotFoundError.
    """

    def decide(found: _Control) -> _Control:
        if not found.is_late:
            return found
        abort = IfRunning.ABORT.value
        return replace(found, status=WorkflowStatus.STOPPING, reason=WorkflowReason.DEADLINE, cancelling=abort)

    _change(database, workflow_id, decide, actor=None)


def _change(
    database: Database, workflow_id: str, decide: _Decide, *, actor: str | None, event_id: str | None = None
) -> None:
    event_id = event_id or ids.event_id()
    for _ in range(MAX_TRIES):
        try:
            return database.transact(partial(_try, workflow_id, decide, event_id, actor))
        except _ControlOvertakenError:
            continue
    raise UnavailableError("The workflow is changing too often. Retry later.")


def _try(workflow_id: str, decide: _Decide, event_id: str, actor: str | None, connection: Connection) -> None:
    row = connection.execute(LOCK, {"workflow_id": workflow_id}).first()
    if row is None:
        raise WorkflowNotFoundError.of(workflow_id)
    if recorded(connection, event_id):
        return
    found = _Control.from_row(row)
    after = decide(found)
    if after == found:
        return
    params = {
        "workflow_id": workflow_id,
        "revision": row.revision,
        "status": after.status.value,
        "reason": after.reason and after.reason.value,
        "cancelling": after.cancelling,
    }
    if not connection.execute(CHANGE, params).all():
        raise _ControlOvertakenError
    change = StatusChange(workflow_id, found.status, after.status, after.reason)
    record_event(connection, event_id, change, actor=actor)
