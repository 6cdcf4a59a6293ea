"""Indexes of nodes by name and of edges by child that no read by number can use.

With few statistics, the planner read all nodes or edges of a workflow by them, for each of its nodes.
"""

from schema import online

revision = "0119"
down_revision = "0118"


def upgrade() -> None:
    online.create_index(
        "uq_workflow_nodes_named",
        "workflow_nodes",
        ["workflow_id", "name"],
        unique=True,
        where="item = 0 AND name IS NOT NULL",
    )
    online.drop_index("uq_workflow_nodes_name")
    online.create_index(
        "idx_workflow_edges_to", "workflow_edges", ["workflow_id", "child", "parent"], where="child > 1"
    )
    online.drop_index("idx_workflow_edges_child")
