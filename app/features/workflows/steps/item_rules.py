"""Rules of nodes with items: how many items may start, and the state of the node after items ended. Pure."""

from collections.abc import Mapping
from typing import Any

from app.features.workflows.rules.model import NodeReason
from app.features.workflows.stored.node_rows import WorkflowNode
from app.kernel.formats import numbered
from schema.states import NodeState, WorkflowReason


def tolerated(definition: Mapping[str, Any], items: int) -> int:
    """Return the number of items that may fail without failing their node."""
    tolerance = definition.get("tolerate", {})
    if "percent" in tolerance:
        return int(items * tolerance["percent"] / 100)
    return int(tolerance.get("count", 0))


def may_start(node: WorkflowNode, stopping: WorkflowReason | None) -> int:
    """Return how many further items of a node may start now, without regard to the limit of the workflow."""
    if _has_failed(node) or node.decision(stopping).state is not NodeState.READY:
        return 0
    left, most = node.items - node.items_made, node.definition.get("max_parallel")
    return left if most is None else max(0, min(left, most - node.items_open))


def settle(node: WorkflowNode, stopping: WorkflowReason | None) -> None:
    """Set the state of a node by its counts: EXPANDING while items may start, RUNNING while items run, else its end."""
    if may_start(node, stopping):
        node.state = NodeState.EXPANDING
    elif node.items_open:
        node.state = NodeState.RUNNING
    elif _has_failed(node):
        message = f"{node.items_failed:,} of {numbered(node.items, 'item')} failed."
        node.end(NodeState.FAILED, NodeReason.ITEMS_FAILED, message)
    elif node.items_made == node.items:
        node.end(NodeState.SUCCEEDED)
    else:
        # The workflow stopped before all items had started.
        node.end(NodeState.CANCELLED if node.items_made else NodeState.SKIPPED, NodeReason.STOPPED)


def _has_failed(node: WorkflowNode) -> bool:
    return node.items_failed > tolerated(node.definition, node.items)
