"""Nodes whose executions were retried manually: their ends from before the retry, and marks for the next step."""

from schema import online

revision = "0110"
down_revision = "0109"


def upgrade() -> None:
    online.add_column("workflow_nodes", "retried_end", "TIMESTAMPTZ")
    online.add_column("workflow_nodes", "is_reopened", "BOOLEAN DEFAULT false NOT NULL")
    online.create_index(
        "idx_workflow_nodes_reopened", "workflow_nodes", ["workflow_id", "node", "item"], where="is_reopened"
    )
