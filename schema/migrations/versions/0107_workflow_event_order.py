"""Index of the changes of all workflows by time, for the list of events."""

from schema import online

revision = "0107"
down_revision = "0105"


def upgrade() -> None:
    online.create_index(
        "idx_workflow_events_occurred", "workflow_events", ["occurred_at", "event_id"], leads_with_time=True
    )
