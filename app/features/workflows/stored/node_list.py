"""Nodes of a workflow: lists in topological order, one node with its neighbours, items, and the graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from app.features.workflows.rules.graph_formats import Drawing, DrawnNode, NodeKind
from app.features.workflows.stored.node_rows import is_current
from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, page_of
from app.kernel.db.rows import RowValue
from app.kernel.errors import WorkflowNodeNotFoundError
from app.kernel.sql import statement
from schema.states import NodeState

_KIND = """
    CASE WHEN n.definition->'group' IS NOT NULL THEN 'group' WHEN n.definition->'for_each' IS NOT NULL THEN 'for_each'
         WHEN n.endpoint IS NULL THEN 'gate' ELSE 'job' END AS kind"""
_COMPENSATION = """(SELECT c.state FROM workflow_nodes AS c
                         WHERE c.workflow_id = n.workflow_id AND c.node = n.node AND c.item = -1 - n.item
                           AND c.run = n.run) AS compensation"""
_COLUMNS = """n.node, n.item, n.name, n.endpoint, n.state, n.reason, n.message, n.run, n.job_id, n.execution_id,
           n.items, n.items_made, n.items_open, n.items_failed, n.ready_at, n.started_at, n.ended_at,
           now() AS read_at"""

NODES = statement(
    "workflows.nodes",
    """
    SELECT {columns}, {compensation}, {kind} FROM workflow_nodes AS n
     WHERE n.workflow_id = :workflow_id AND n.node > :after AND n.item = 0
       AND (CAST(:state AS TEXT) IS NULL OR n.state = CAST(:state AS TEXT))
     ORDER BY n.node, n.item LIMIT :limit
    """,
    columns=_COLUMNS,
    compensation=_COMPENSATION,
    kind=_KIND,
)
NODE = statement(
    "workflows.node",
    """
    SELECT {columns}, {compensation}, n.definition, {kind} FROM workflow_nodes AS n
     WHERE n.workflow_id = :workflow_id AND n.name = :name AND n.item = 0 AND n.name IS NOT NULL
    """,
    columns=_COLUMNS,
    compensation=_COMPENSATION,
    kind=_KIND,
)
NEIGHBOURS = statement(
    "workflows.neighbours",
    """
    (SELECT 'parent' AS side, n.name, n.node FROM workflow_edges AS e
       JOIN workflow_nodes AS n ON n.workflow_id = e.workflow_id AND n.node = e.parent AND n.item = 0
      WHERE e.workflow_id = :workflow_id AND e.child = :node AND e.child > 1)
    UNION ALL
    (SELECT 'child', n.name, n.node FROM workflow_edges AS e
       JOIN workflow_nodes AS n ON n.workflow_id = e.workflow_id AND n.node = e.child AND n.item = 0
      WHERE e.workflow_id = :workflow_id AND e.parent = :node)
     ORDER BY side, node, name
    """,
)
ITEMS = statement(
    "workflows.items",
    """
    SELECT {columns}, {compensation}, 'job' AS kind FROM workflow_nodes AS n
     WHERE n.workflow_id = :workflow_id AND n.node = :node AND n.item > :after AND {is_current}
       AND (CAST(:state AS TEXT) IS NULL OR n.state = CAST(:state AS TEXT))
     ORDER BY n.node, n.item LIMIT :limit
    """,
    columns=_COLUMNS,
    compensation=_COMPENSATION,
    is_current=is_current("n"),
)
DRAWN = statement(
    "workflows.drawn",
    """
    SELECT n.node AS number, n.name, n.endpoint, n.state, n.items, {compensation}, {kind} FROM workflow_nodes AS n
     WHERE n.workflow_id = :workflow_id AND n.item = 0 ORDER BY n.node, n.item
    """,
    compensation=_COMPENSATION,
    kind=_KIND,
)
EDGES = statement(
    "workflows.edges",
    "SELECT parent, child FROM workflow_edges WHERE workflow_id = :workflow_id ORDER BY parent, child",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNode(RowValue):
    """A node, or an item of a node; only nodes with several jobs have counts of items, from their start on."""

    node: int
    item: int
    name: str | None
    kind: NodeKind
    endpoint: str | None
    state: NodeState
    reason: str | None
    message: str | None
    run: int
    job_id: str | None
    execution_id: str | None
    compensation: NodeState | None
    items: int | None
    items_made: int | None
    items_open: int | None
    items_failed: int | None
    ready_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None


class NodeView(NamedTuple):
    """A node with its definition and the names of the nodes before and behind it."""

    node: StoredNode
    definition: dict[str, Any]
    after: Sequence[str]
    before: Sequence[str]


def page_of_nodes(
    database: Database, workflow_id: str, request: PageRequest, state: NodeState | None = None
) -> Page[StoredNode]:
    """Read a page of nodes, each after its parents; empty if there is no such workflow."""
    wanted = {"workflow_id": workflow_id, "after": _after(request), "state": state, "limit": request.limit + 1}
    return page_of(database.fetch(NODES, wanted), "read_at", "node", request, StoredNode.from_row)


def get_node(database: Database, workflow_id: str, name: str) -> NodeView:
    """Read a node; raises WorkflowNodeNotFoundError, also if there is no such workflow."""
    rows = database.fetch(NODE, {"workflow_id": workflow_id, "name": name})
    if not rows:
        raise WorkflowNodeNotFoundError.of(name)
    node = StoredNode.from_row(rows[0])
    neighbours = database.fetch(NEIGHBOURS, {"workflow_id": workflow_id, "node": node.node})
    after, before = ([row.name for row in neighbours if row.side == side] for side in ("parent", "child"))
    return NodeView(node, rows[0].definition, after, before)


def page_of_items(
    database: Database, workflow_id: str, node: int, request: PageRequest, state: NodeState | None = None
) -> Page[StoredNode]:
    """Read a page of the items of the node with a number, in their order."""
    wanted = {"workflow_id": workflow_id, "node": node, "after": _after(request), "state": state}
    rows = database.fetch(ITEMS, wanted | {"limit": request.limit + 1})
    return page_of(rows, "read_at", "item", request, StoredNode.from_row)


def drawing_of(database: Database, workflow_id: str) -> Drawing:
    """Read the graph of a workflow; empty if there is no such workflow."""
    key = {"workflow_id": workflow_id}
    nodes = [DrawnNode.from_row(row) for row in database.fetch(DRAWN, key)]
    return Drawing(nodes, [(row.parent, row.child) for row in database.fetch(EDGES, key)])


def _after(request: PageRequest) -> int:
    return 0 if request.after is None else int(request.after.key)
