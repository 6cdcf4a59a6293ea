"""Index of all nodes that name other endpoints: a node may be undone until its workflow ends."""

from schema import online

revision = "0123"
down_revision = "0122"


def upgrade() -> None:
    online.create_index(
        "idx_workflow_nodes_others",
        "workflow_nodes",
        ["other_endpoints"],
        using="gin",
        where="other_endpoints IS NOT NULL",
    )
    online.drop_index("idx_workflow_nodes_other_endpoints")
