"""Changes of the status of workflows, recorded in the transaction of the change."""

from typing import NamedTuple

from sqlalchemy import Connection

from app.kernel.sql import statement
from schema.states import WorkflowStatus

RETRIED = "RETRIED"
"""Reason of a change by a retry."""

RECORD = statement(
    "workflow_events.record",
    """
    INSERT INTO workflow_events (event_id, workflow_id, from_status, to_status, actor, reason)
    VALUES (:event_id, :workflow_id, :before, :after, CAST(:actor AS TEXT), :reason)
    ON CONFLICT (event_id) DO NOTHING
    """,
)
RECORDED = statement("workflow_events.recorded", "SELECT event_id FROM workflow_events WHERE event_id = :event_id")


class StatusChange(NamedTuple):
    """A change of the status of a workflow; its reason is why the workflow stops early, or RETRIED."""

    workflow_id: str
    before: WorkflowStatus
    after: WorkflowStatus
    reason: str | None


def record_event(connection: Connection, event_id: str, change: StatusChange, *, actor: str | None) -> None:
    """Record a change; `actor` is None for a change that was not requested."""
    params = {
        "event_id": event_id,
        "workflow_id": change.workflow_id,
        "before": change.before.value,
        "after": change.after.value,
        "reason": None if change.reason is None else str(change.reason),
    }
    connection.execute(RECORD, params | {"actor": actor})


def recorded(connection: Connection, event_id: str) -> bool:
    """Return whether a change is recorded: an earlier run of this transaction was committed, its answer was lost."""
    return connection.execute(RECORDED, {"event_id": event_id}).first() is not None
