"""Index of deadlines: also of workflows that stop, because the search for late workflows reads both."""

from schema import online

revision = "0104"
down_revision = "0103"


def upgrade() -> None:
    online.drop_index("idx_workflows_deadline")
    online.create_index(
        "idx_workflows_deadline",
        "workflows",
        ["deadline_at", "workflow_id"],
        where="deadline_at IS NOT NULL AND ended_at IS NULL",
        leads_with_time=True,
    )
