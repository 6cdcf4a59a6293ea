"""Endpoints of nodes: a workflow keeps the endpoints that its nodes may still need."""

from schema import online

revision = "0105"
down_revision = "0104"

_MAY_START = "(state IN ('WAITING', 'READY', 'EXPANDING') OR state = 'RUNNING' AND items_made < items)"


def upgrade() -> None:
    online.add_column("workflow_nodes", "other_endpoints", "JSONB")
    online.create_index("idx_workflow_nodes_endpoint", "workflow_nodes", ["endpoint", "workflow_id"], where=_MAY_START)
    online.create_index(
        "idx_workflow_nodes_other_endpoints",
        "workflow_nodes",
        ["other_endpoints"],
        using="gin",
        where=f"other_endpoints IS NOT NULL AND {_MAY_START}",
    )
