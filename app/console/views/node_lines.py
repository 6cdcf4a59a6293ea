"""Lines of the nodes of a workflow: the time that each took, and the nodes that each waits for. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from app.features.workflows.rules.graph_formats import Drawing
from app.features.workflows.rules.model import NodeReason
from app.features.workflows.stored.node_list import StoredNode
from app.kernel.formats import numbered
from schema.states import FINAL_OF_NODE, NodeState, WorkflowStatus

MAX_NAMED = 3
_REASONS = {
    NodeReason.UPSTREAM: "a node before it did not go well",
    NodeReason.NOT_NEEDED: "nothing failed before it",
    NodeReason.STOPPED: "the workflow stopped before its start",
    NodeReason.ITEMS_FAILED: "more items failed than it tolerates",
    NodeReason.ENDPOINT_DELETED: "its endpoint was deleted",
}


class NodeLine(NamedTuple):
    """A node; `why` explains its state, `took_ms` is the time from ready to its end, or until now."""

    node: StoredNode
    why: str
    took_ms: float | None


def node_lines(nodes: Sequence[StoredNode], drawing: Drawing, status: WorkflowStatus, now: datetime) -> list[NodeLine]:
    """Return the lines of nodes; without a drawing, lines name no parents."""
    open_parents = defaultdict[int, list[str]](list)
    drawn = {node.number: node for node in drawing.nodes}
    for parent, child in drawing.edges:
        if drawn[parent].state not in FINAL_OF_NODE:
            open_parents[child].append(drawn[parent].name)
    return [NodeLine(node, _why(node, open_parents[node.node], status), _took(node, now)) for node in nodes]


def _why(node: StoredNode, waits_for: Sequence[str], status: WorkflowStatus) -> str:
    if node.message:
        return node.message
    match node.state:
        case NodeState.WAITING:
            more = f" and {len(waits_for) - MAX_NAMED} more" if len(waits_for) > MAX_NAMED else ""
            return f"waits for {', '.join(waits_for[:MAX_NAMED])}{more}" if waits_for else "waits for other nodes"
        case NodeState.READY:
            is_paused = status is WorkflowStatus.PAUSED
            return "starts once the workflow is resumed" if is_paused else "starts once max_parallel allows it"
        case NodeState.SKIPPED | NodeState.FAILED | NodeState.CANCELLED:
            return next((words for reason, words in _REASONS.items() if reason == node.reason), "")
    return _items(node)


def _items(node: StoredNode) -> str:
    if node.items is None:
        return ""
    failed = f", {node.items_failed:,} failed" if node.items_failed else ""
    return f"{(node.items_made or 0) - (node.items_open or 0):,} of {numbered(node.items, 'item')} ended{failed}"


def _took(node: StoredNode, now: datetime) -> float | None:
    if node.ready_at is None or node.state is NodeState.SKIPPED:
        return None
    return max(0.0, ((node.ended_at or now) - node.ready_at).total_seconds() * 1000)
