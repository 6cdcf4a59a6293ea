"""Checks of workflows: pure functions from the evidence to its breaches."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime

from app.dev.verify.evidence import Evidence
from app.dev.verify.workflows.workflow_rows import NodeRow, WorkflowRow
from app.kernel.formats import numbered
from app.queue.executions.node_key import NodeKey
from schema.states import FINAL_OF_NODE, FINAL_OF_WORKFLOW, ExecutionStatus, NodeState

_ENDS = {
    ExecutionStatus.SUCCESS: NodeState.SUCCEEDED,
    ExecutionStatus.FAILED: NodeState.FAILED,
    ExecutionStatus.CANCELLED: NodeState.CANCELLED,
}


def each_node_once(evidence: Evidence) -> Iterator[str]:
    """Find nodes and items without exactly one job of their run, and ends that differ from the end of the execution."""
    jobs = defaultdict[NodeKey, list[str]](list)
    for job in evidence.workflows.jobs:
        jobs[job.place].append(job.job_id)
    statuses = {execution.execution_id: execution.status for execution in evidence.executions}
    made = Counter((node.workflow_id, node.node) for node in evidence.workflows.nodes if node.item > 0)
    for node in evidence.workflows.nodes:
        found, owed = jobs.pop(node.place, []), [] if node.job_id is None else [node.job_id]
        if found != owed:
            yield f"{_named(node)}: {numbered(len(found), 'job')}, {len(owed)} expected"
        status = statuses.get(node.execution_id or "")
        if status in _ENDS and _ENDS[status] is not node.state:
            yield f"{_named(node)}: {node.state}, and its execution is {status}"
        if node.items_made is not None and made[node.workflow_id, node.node] != node.items_made:
            yield f"{_named(node)}: {numbered(made[node.workflow_id, node.node], 'item')}, {node.items_made} counted"
    runs = {node.place[:3]: node.run for node in evidence.workflows.nodes}
    for place, found in jobs.items():
        if place.run >= runs.get(place[:3], 0) or len(found) > 1:
            yield f"{place.idempotency_key}: {numbered(len(found), 'job')} of no node, or of an earlier run"


def nodes_in_order(evidence: Evidence) -> Iterator[str]:
    """Find nodes that started before all nodes in front of them had ended."""
    ended = {(node.workflow_id, node.node): node.ended_at for node in evidence.workflows.nodes if not node.item}
    started: dict[tuple[str, int], datetime] = {}
    for job in evidence.workflows.jobs:
        key = job.place.workflow_id, job.place.node
        started[key] = min(job.created_at, started.get(key, job.created_at))
    for workflow_id, parent, child in evidence.workflows.edges:
        began, end = started.get((workflow_id, child)), ended.get((workflow_id, parent))
        if began is not None and (end is None or began < end):
            yield f"{workflow_id}: node {child} started at {began}, and node {parent} ended at {end}"


def each_workflow_ends(evidence: Evidence) -> Iterator[str]:
    """Find accepted workflows that were lost, and workflows that stand still or count wrongly."""
    workflows = evidence.workflows
    known = {row.workflow_id for row in workflows.rows}
    yield from (f"{key}: accepted, and not stored" for key, name in workflows.accepted.items() if name not in known)
    nodes = defaultdict[str, list[NodeRow]](list)
    for node in workflows.nodes:
        nodes[node.workflow_id].append(node)
    for row in workflows.rows:
        yield from _unfinished(row, nodes[row.workflow_id])


def _unfinished(row: WorkflowRow, nodes: list[NodeRow]) -> Iterator[str]:
    name = row.workflow_id
    if row.status not in FINAL_OF_WORKFLOW or row.open_nodes or row.running:
        yield f"{name}: {row.status} with {numbered(row.open_nodes, 'open node')}, {row.running} running"
    yield from (f"{_named(node)}: still {node.state}" for node in nodes if node.state not in FINAL_OF_NODE)
    yield from (f"{_named(node)}: its end was not reported" for node in nodes if node.reported_to is not None)
    states = Counter(node.state for node in nodes if not node.item)
    for state in sorted(FINAL_OF_NODE):
        counted = getattr(row, state.lower())
        if counted != states[state]:
            yield f"{name}: {numbered(states[state], 'node')} {state}, {counted} counted"


def _named(node: NodeRow) -> str:
    return f"{node.workflow_id}, node {node.node}, item {node.item}"
