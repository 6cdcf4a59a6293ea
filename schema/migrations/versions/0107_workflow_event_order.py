"""Indexes of the changes of all workflows and of failed workflows by time, for events and notifications."""

from schema import online

revision = "0107"
down_revision = "0105"


def upgrade() -> None:
    online.create_index(
        "idx_workflow_events_occurred", "workflow_events", ["occurred_at", "event_id"], leads_with_time=True
    )
    online.create_index(
        "idx_workflows_failed",
        "workflows",
        ["ended_at", "workflow_id"],
        where="ended_at IS NOT NULL AND reason IN ('NODE_FAILED', 'DEADLINE')",
        leads_with_time=True,
    )
