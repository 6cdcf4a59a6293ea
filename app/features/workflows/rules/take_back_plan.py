"""Plan after manual retries of executions: the reports of their nodes are taken back. Pure.

Nodes that were skipped because of the failure wait again, and nodes that have run keep their results, handlers of the
failure included.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from app.features.workflows.rules.model import NodeReason
from app.features.workflows.rules.retry_plan import (
    NodeAgain,
    ParentCounts,
    PlannedNode,
    StoredGraph,
    parent_counts,
    start_again,
)
from schema.states import NodeState, OnFailure, WorkflowReason, WorkflowStatus

_TAKEN_BACK = frozenset({NodeReason.UPSTREAM, NodeReason.STOPPED})


class TakeBackPlan(NamedTuple):
    """Changes of a workflow.

    Attributes:
        reopened: Numbers of nodes whose ends no longer count.
        continued: Numbers of nodes with items that stopped, and start their other items now.
        again: Nodes that wait again, or may start.
        recounted: Other nodes with changed counts.
        counted: Nodes whose ends still count.
        reason: Reason why the workflow stops early, from now on.
    """

    reopened: Collection[int]
    continued: Collection[int]
    again: Sequence[NodeAgain]
    recounted: Sequence[ParentCounts]
    counted: Sequence[PlannedNode]
    reason: WorkflowReason | None

    @property
    def compensates(self) -> bool:
        """Whether a node that still counts as failed asks for a compensation."""
        return any(node.stops and node.on_failure is OnFailure.COMPENSATE for node in self.counted)

    def status(self, before: WorkflowStatus) -> WorkflowStatus:
        """Return the status of the workflow from now on."""
        if before is WorkflowStatus.PAUSED:
            return before
        return WorkflowStatus.RUNNING if self.reason is None else WorkflowStatus.STOPPING


def plan_take_back(
    graph: StoredGraph, reopened: Collection[int], reason: WorkflowReason | None, *, is_over: bool
) -> TakeBackPlan:
    """Plan the take-back of nodes that run again.

    Args:
        graph: The workflow; its reopened nodes have no end, or an end that nobody has counted.
        reopened: Numbers of nodes whose executions, or executions of items, were retried.
        reason: Reason why the workflow stops early.
        is_over: Whether the workflow has ended.
    """
    others = [node for number, node in graph.nodes.items() if number not in reopened]
    reason = _reason(others, reason, is_over=is_over)
    continued = {node.node for node in others if reason is None and _has_stopped(node)}
    again = dict[int, NodeAgain]()
    for node in others:
        if node.node not in continued and (start := _again(graph, node, {*reopened, *continued, *again}, reason)):
            again[node.node] = start
    changed = {*reopened, *continued, *again}
    return TakeBackPlan(
        reopened=reopened,
        continued=continued,
        again=[*again.values()],
        recounted=[*_recounted(graph, changed, again)],
        counted=[node for node in others if node.is_counted and node.node not in changed],
        reason=reason,
    )


def _reason(others: Sequence[PlannedNode], reason: WorkflowReason | None, *, is_over: bool) -> WorkflowReason | None:
    if reason is WorkflowReason.CANCELLED or (reason is WorkflowReason.DEADLINE and not is_over):
        return reason
    stops = any(node.stops and node.is_counted and not _has_stopped(node) for node in others)
    return WorkflowReason.NODE_FAILED if stops else None


def _has_stopped(node: PlannedNode) -> bool:
    """Return whether a node with items ended because its workflow stopped."""
    return node.state is NodeState.CANCELLED and node.reason == NodeReason.STOPPED


def _again(
    graph: StoredGraph, node: PlannedNode, changed: Collection[int], reason: WorkflowReason | None
) -> NodeAgain | None:
    """Return how a node starts again, or None if it stays as it is."""
    if node.state is NodeState.SKIPPED and node.reason in _TAKEN_BACK:
        start = start_again(graph, node, changed, reason)
        return None if start.start.state is NodeState.SKIPPED else start
    if node.state is NodeState.READY and any(parent in changed for parent in graph.parents[node.node]):
        return start_again(graph, node, changed, reason)
    return None


def _recounted(graph: StoredGraph, changed: set[int], again: Collection[int]) -> Iterator[ParentCounts]:
    for number, parents in graph.parents.items():
        if number not in again and not changed.isdisjoint(parents):
            yield parent_counts(graph, number, changed)
