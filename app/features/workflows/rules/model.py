"""Values of workflows: reasons of nodes, and the rule that starts or skips a node. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from schema.states import NodeState, RunIf, WorkflowReason

STEP = 500  # rows of each kind that one step changes
# By their texts: a look-up takes a fifth of the time of a call of the class.
STATES: Mapping[str, NodeState] = {str(state): state for state in NodeState}
RUN_IFS: Mapping[str, RunIf] = {str(run_if): run_if for run_if in RunIf}


class NodeReason(StrEnum):
    """Reason of a skipped node, or of a node that ended without an execution."""

    UPSTREAM = "UPSTREAM"  # skipped: a parent did not go well
    NOT_NEEDED = "NOT_NEEDED"  # skipped: a handler of failures, and all parents went well
    STOPPED = "STOPPED"  # skipped: the workflow stopped or was cancelled before
    ITEMS_FAILED = "ITEMS_FAILED"  # more items failed than `tolerate` allows
    INPUT_UNRESOLVABLE = "INPUT_UNRESOLVABLE"  # a variable of the input or of `for_each` has no value
    INPUT_REFUSED = "INPUT_REFUSED"  # by the payload spec of the endpoint
    INPUT_TOO_LARGE = "INPUT_TOO_LARGE"
    RESULTS_TOO_LARGE = "RESULTS_TOO_LARGE"  # the input names `results` of more than 1 MiB
    ENDPOINT_DELETED = "ENDPOINT_DELETED"
    EXECUTION_LOST = "EXECUTION_LOST"  # the row of the execution is gone


class NodeStart(NamedTuple):
    """Decision about a node after the end of all its parents: READY, or SKIPPED with a reason."""

    state: NodeState
    reason: NodeReason | None = None


_START = NodeStart(NodeState.READY)


def decide(run_if: RunIf, failed_parents: int, stopping: WorkflowReason | None) -> NodeStart:
    """Decide whether a node starts, once all its parents are through.

    Args:
        run_if: Condition of the node.
        failed_parents: Number of parents that did not go well.
        stopping: Reason why the workflow stops early; None while it does not.
    """
    if stopping in {WorkflowReason.CANCELLED, WorkflowReason.DEADLINE}:
        return NodeStart(NodeState.SKIPPED, NodeReason.STOPPED)
    if run_if is RunIf.ANY_FAILED and not failed_parents:
        return NodeStart(NodeState.SKIPPED, NodeReason.NOT_NEEDED)
    if run_if is RunIf.ALL_SUCCEEDED and failed_parents:
        return NodeStart(NodeState.SKIPPED, NodeReason.UPSTREAM)
    if run_if is RunIf.ALL_SUCCEEDED and stopping is not None:
        return NodeStart(NodeState.SKIPPED, NodeReason.STOPPED)
    return _START


def went_well(state: NodeState, reason: str | None) -> bool:
    """Return whether children count an ended node as well: it succeeded, or it was a handler that nothing needed."""
    return state is NodeState.SUCCEEDED or (state is NodeState.SKIPPED and reason == NodeReason.NOT_NEEDED)
