"""Plan of a retry: which nodes run again, and their counts of parents. Pure.

All nodes behind a node that runs again do so too, because their inputs may change. Nodes that were skipped when the
workflow stopped also wait again.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.features.workflows.rules.model import NodeReason, NodeStart, decide, went_well
from app.kernel.db.rows import RowValue
from app.kernel.errors import ConflictError, Detail, InvalidRequestError
from app.kernel.formats import numbered
from app.kernel.suggestions import did_you_mean
from schema.states import FINAL_OF_NODE, NodeState, OnFailure, RunIf, WorkflowReason, WorkflowStatus

_MAX_NAMED = 3
_NOT_BEGUN = frozenset({NodeState.WAITING, NodeState.READY})
_BUSY = frozenset({NodeState.EXPANDING, NodeState.RUNNING})
_FAILED = frozenset({NodeState.FAILED, NodeState.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNode(RowValue):
    """A node of a workflow that has ended or is paused."""

    node: int
    name: str
    state: NodeState
    reason: str | None
    run: int
    reported_to: int | None
    execution_id: str | None
    run_if: RunIf
    on_failure: OnFailure

    @property
    def is_counted(self) -> bool:
        """Whether the workflow counts the end of the node."""
        return self.state in FINAL_OF_NODE and self.reported_to != 0

    @property
    def stops(self) -> bool:
        """Whether the node stops its workflow."""
        return self.state in _FAILED and self.on_failure is not OnFailure.CONTINUE

    def has_reported(self, child: int) -> bool:
        """Return whether a child counts the end of the node."""
        return self.state in FINAL_OF_NODE and (self.reported_to is None or self.reported_to >= child)


class StoredGraph(NamedTuple):
    """Nodes of a workflow by their numbers, in order, and the parents of each."""

    nodes: Mapping[int, PlannedNode]
    parents: Mapping[int, Sequence[int]]

    @classmethod
    def of(cls, nodes: Iterable[PlannedNode], edges: Iterable[tuple[int, int]]) -> "StoredGraph":
        by_number = {node.node: node for node in nodes}
        parents: dict[int, list[int]] = {number: [] for number in by_number}
        for parent, child in edges:
            parents[child].append(parent)
        return cls(by_number, parents)

    def behind(self, first: Collection[int]) -> set[int]:
        """Return these nodes and all nodes behind them; the number of a node is larger than those of its parents."""
        found = set(first)
        for number, parents in self.parents.items():
            if not found.isdisjoint(parents):
                found.add(number)
        return found


class ParentCounts(NamedTuple):
    """Counts of the parents of a node."""

    node: int
    open_parents: int
    failed_parents: int


class RetryRequest(NamedTuple):
    """Nodes that run again, by their names, or all failed and cancelled nodes."""

    names: Sequence[str] = ()
    failed: bool = False


class NodeAgain(NamedTuple):
    """A node that runs again, and how it starts."""

    before: PlannedNode
    start: NodeStart
    open_parents: int
    failed_parents: int

    @property
    def run(self) -> int:
        """Number of its next run; a node that has not run keeps its number."""
        has_run = self.before.state not in _NOT_BEGUN | {NodeState.SKIPPED}
        return self.before.run + has_run


class RetryPlan(NamedTuple):
    """Nodes that run again, in order, nodes that keep their results, and the status of the workflow afterwards."""

    again: Sequence[NodeAgain]
    kept: Sequence[PlannedNode]
    status: WorkflowStatus


def plan_retry(graph: StoredGraph, status: WorkflowStatus, wanted: RetryRequest) -> RetryPlan:
    """Plan a retry of a workflow with a status: a paused workflow stays PAUSED.

    Raises InvalidRequestError for an unknown name, or ConflictError if a node that runs again still runs, no node
    failed, or the workflow would stop again at once.
    """
    named = _named(graph, wanted)
    stopped = {number for number, node in graph.nodes.items() if node.reason == NodeReason.STOPPED}
    again = graph.behind(named | stopped)
    kept = [node for number, node in graph.nodes.items() if number not in again]
    _check(graph, again, kept)
    planned = [start_again(graph, graph.nodes[number], again) for number in sorted(again)]
    skipped = [each for each in planned if each.before.node in named and each.start.state is NodeState.SKIPPED]
    if skipped:
        names = _listed(each.before.name for each in skipped)
        raise ConflictError(f"{names} would be skipped again. Name the failed nodes before them in `from_nodes`, too.")
    is_paused = status is WorkflowStatus.PAUSED
    return RetryPlan(planned, kept, WorkflowStatus.PAUSED if is_paused else WorkflowStatus.RUNNING)


def _named(graph: StoredGraph, wanted: RetryRequest) -> set[int]:
    if wanted.failed:
        failed = {number for number, node in graph.nodes.items() if node.state in _FAILED}
        if not failed:
            raise ConflictError("No node of the workflow failed or was cancelled. Name nodes in `from_nodes`.")
        return failed
    numbers = {node.name: number for number, node in graph.nodes.items()}
    if faults := [*_unknown(wanted.names, numbers)]:
        raise InvalidRequestError.of_faults(*faults)
    return {numbers[name] for name in wanted.names}


def _unknown(names: Sequence[str], known: Collection[str]) -> Iterator[Detail]:
    for index, name in enumerate(names):
        if name not in known:
            message = f"The workflow has no node {name!r}.{did_you_mean(name, known)}"
            yield Detail(pointer=f"/from_nodes/{index}", message=message)


def _check(graph: StoredGraph, again: Collection[int], kept: Sequence[PlannedNode]) -> None:
    if busy := [graph.nodes[number].name for number in sorted(again) if graph.nodes[number].state in _BUSY]:
        raise ConflictError(f"{_listed(busy)} would run again, but has not ended. Retry after its end.")
    if stopping := [node.name for node in kept if node.stops]:
        raise ConflictError(
            f"{_listed(stopping)} failed and would stop the workflow again. Name it in `from_nodes`, or use `failed`."
        )


def start_again(
    graph: StoredGraph, node: PlannedNode, again: Collection[int], reason: WorkflowReason | None = None
) -> NodeAgain:
    """Return how a node starts again, if its parents in `again` have not ended."""
    counts = parent_counts(graph, node.node, again)
    is_open = counts.open_parents > 0
    start = NodeStart(NodeState.WAITING) if is_open else decide(node.run_if, counts.failed_parents, reason)
    return NodeAgain(before=node, start=start, open_parents=counts.open_parents, failed_parents=counts.failed_parents)


def parent_counts(graph: StoredGraph, number: int, again: Collection[int]) -> ParentCounts:
    """Count the parents of a node, if its parents in `again` have not ended."""
    parents = graph.parents[number]
    reported = [graph.nodes[each] for each in parents if each not in again and graph.nodes[each].has_reported(number)]
    failed = sum(not went_well(parent.state, parent.reason) for parent in reported)
    return ParentCounts(number, len(parents) - len(reported), failed)


def _listed(names: Iterable[str]) -> str:
    shown = [*names]
    more = len(shown) - _MAX_NAMED
    listed = ", ".join(repr(name) for name in shown[:_MAX_NAMED])
    return listed if more <= 0 else f"{listed} and {numbered(more, 'more node')}"
