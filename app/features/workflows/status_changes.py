"""Changes of the status of workflows, recorded in the transaction of the change."""

from dataclasses import dataclass

from sqlalchemy import Connection

from app.kernel.sql import statement
from schema.states import WorkflowReason, WorkflowStatus

RECORD = statement(
    "workflow_events.record",
    """
    INSERT INTO workflow_events (event_id, workflow_id, from_status, to_status, actor, reason)
    VALUES (:event_id, :workflow_id, :before, :after, CAST(:actor AS TEXT), :reason)
    ON CONFLICT (event_id) DO NOTHING
    """,
)


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A change of the status of a workflow, and the reason why the workflow stops early, if any."""

    workflow_id: str
    before: WorkflowStatus
    after: WorkflowStatus
    reason: WorkflowReason | None


def record_event(connection: Connection, event_id: str, change: StatusChange, *, actor: str | None) -> None:
    """Record a change; `actor` is None for a change that was not requested."""
    params = {
        "event_id": event_id,
        "workflow_id": change.workflow_id,
        "before": change.before.value,
        "after": change.after.value,
        "reason": change.reason and change.reason.value,
    }
    connection.execute(RECORD, params | {"actor": actor})
