"""Reports of ended nodes: an item reports to its node, and a node to its children, up to 500 of each in a step.

A node counts in its workflow when it first reports. `reported_to` is its cursor: the number of the last child that has
the report. Children that may start now are left to the start of nodes in the same step, which writes them once.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Row

from app.features.workflows.rules.model import STATES, STEP, went_well
from app.features.workflows.steps import item_rules
from app.features.workflows.steps.step import StepOvertakenError, WorkflowStep
from app.features.workflows.stored import node_rows
from app.kernel.db.hot import run_in
from app.kernel.formats import array_literal
from app.kernel.sql import hot_statement, statement
from schema.states import NodeState, OnFailure, WorkflowReason

REPORTING = hot_statement(
    "workflow_nodes.reporting",
    """
    SELECT node, item, state, reason, reported_to, execution_id, definition->>'on_failure' AS on_failure
      FROM workflow_nodes
     WHERE workflow_id = :workflow_id AND item >= 0 AND reported_to IS NOT NULL AND NOT is_reopened
     ORDER BY node, item LIMIT :limit
    """,
)
# Each parent is asked for its next children only, because it may have 10,000. A plan from a time when the table was
# small would read all edges for each parent, so the statement is not a hot one.
EDGES = statement(
    "workflow_edges.next",
    """
    SELECT p.parent, e.child
      FROM unnest(CAST(:parents AS BIGINT[]), CAST(:reported AS BIGINT[])) AS p (parent, reported_to)
     CROSS JOIN LATERAL (
       SELECT child FROM workflow_edges
        WHERE workflow_id = :workflow_id AND parent = p.parent AND child > p.reported_to
        ORDER BY child LIMIT :limit) AS e
     ORDER BY p.parent, e.child LIMIT :limit
    """,
)
REPORTED = hot_statement(
    "workflow_nodes.reported",
    """
    UPDATE workflow_nodes AS n SET reported_to = u.reported_to
      FROM unnest(CAST(:nodes AS BIGINT[]), CAST(:items AS BIGINT[]), CAST(:befores AS BIGINT[]),
                  CAST(:states AS TEXT[]), CAST(:reported AS BIGINT[]))
           AS u (node, item, before, state, reported_to)
     WHERE n.workflow_id = :workflow_id AND n.node = ANY (CAST(:nodes AS BIGINT[]))
       AND n.node = u.node AND n.item = u.item AND n.reported_to = u.before AND n.state = u.state AND NOT n.is_reopened
    RETURNING n.node
    """,
)
_FAILED = frozenset({NodeState.FAILED, NodeState.CANCELLED})


def report(connection: Connection, step: WorkflowStep) -> None:
    """Report up to 500 ends, and count the ends that report for the first time."""
    found = run_in(connection, REPORTING, {"workflow_id": step.workflow_id, "limit": STEP})
    if not found:
        return
    cursors = _report(connection, step, found)
    counted = [row for row in found if (row.node, row.item) in cursors]
    params = {
        "workflow_id": step.workflow_id,
        "nodes": array_literal(row.node for row in counted),
        "items": array_literal(row.item for row in counted),
        "befores": array_literal(row.reported_to for row in counted),
        "states": array_literal(row.state for row in counted),
        "reported": array_literal(cursors[row.node, row.item] for row in counted),
    }
    if len(run_in(connection, REPORTED, params, joins=len(counted))) < len(counted):
        raise StepOvertakenError  # a manual retry of an execution has let its node run again


def report_new(connection: Connection, step: WorkflowStep, ends: Sequence[Row[Any]]) -> list[int | None]:
    """Report ends that the caller writes, in the order of their nodes; returns the `reported_to` of each."""
    cursors = _report(connection, step, ends)
    return [cursors.get((row.node, row.item), 0) for row in ends]


def _report(
    connection: Connection, step: WorkflowStep, found: Sequence[Row[Any]]
) -> Mapping[tuple[int, int], int | None]:
    """Report ends; returns the new value of `reported_to` of each node and item that was reached."""
    step.has_changed = True
    nodes = [row for row in found if not row.item]
    edges = _next_edges(connection, step, nodes)
    cursors = {(row.node, row.item): None for row in found if row.item} | _cursors(nodes, edges)
    for row in found:
        if row.reported_to == 0 and (row.node, row.item) in cursors:
            _count(step, row)
    # After the counts: a failure counted above may stop the workflow, so that these children are skipped.
    _report_to_children(connection, step, nodes, edges)
    _report_to_nodes_with_items(connection, step, [row for row in found if row.item])
    return cursors


def _next_edges(connection: Connection, step: WorkflowStep, nodes: Sequence[Row[Any]]) -> Sequence[Row[Any]]:
    if not nodes:
        return ()
    params = {
        "workflow_id": step.workflow_id,
        "parents": array_literal(row.node for row in nodes),
        "reported": array_literal(row.reported_to for row in nodes),
        "limit": STEP,
    }
    return connection.execute(EDGES, params).all()


def _cursors(nodes: Sequence[Row[Any]], edges: Sequence[Row[Any]]) -> dict[tuple[int, int], int | None]:
    """Return the new value of `reported_to` of each node that the edges reach; None for a node that is through.

    A full page of edges may end among the children of a node, and reaches no later node.
    """
    last = edges[-1] if len(edges) == STEP else None
    return {
        (row.node, 0): last.child if last is not None and row.node == last.parent else None
        for row in nodes
        if last is None or row.node <= last.parent
    }


def _count(step: WorkflowStep, row: Row[Any]) -> None:
    """Count an end in the workflow; a failed node may stop the workflow."""
    state = STATES[row.state]
    if row.execution_id is not None:
        step.running -= 1
    if row.item:
        return
    step.ended[state] += 1
    if state in _FAILED and row.on_failure != OnFailure.CONTINUE:
        step.reason = step.reason or WorkflowReason.NODE_FAILED
        step.compensates |= row.on_failure == OnFailure.COMPENSATE


def _report_to_children(
    connection: Connection, step: WorkflowStep, nodes: Sequence[Row[Any]], edges: Sequence[Row[Any]]
) -> None:
    failed = {row.node for row in nodes if not went_well(STATES[row.state], row.reason)}
    # Not joined to the edges: with few statistics, the planner would read all nodes for each edge.
    children = {node.node: node for node in node_rows.read(connection, step.workflow_id, {row.child for row in edges})}
    for edge in edges:
        child = children[edge.child]
        child.open_parents -= 1
        child.failed_parents += edge.parent in failed
    if any(child.open_parents < 0 for child in children.values()):
        raise StepOvertakenError  # another step has counted these reports, although this step holds the lock
    waiting = [child for child in children.values() if child.state is NodeState.WAITING]
    for child in waiting:
        if not child.open_parents:
            start = child.decision(step.reason)
            child.state, child.reason = start.state, start.reason
    step.ready = [child for child in waiting if child.state is NodeState.READY]
    node_rows.write(connection, step.workflow_id, [child for child in waiting if child.state is not NodeState.READY])


def _report_to_nodes_with_items(connection: Connection, step: WorkflowStep, ended: Sequence[Row[Any]]) -> None:
    if not ended:
        return
    by_node = {number: [*rows] for number, rows in groupby(ended, key=attrgetter("node"))}
    nodes = node_rows.read(connection, step.workflow_id, by_node)
    for node in nodes:
        items = by_node[node.node]
        node.items_open -= len(items)
        if node.items_open < 0:
            raise StepOvertakenError
        node.items_failed += sum(row.state in _FAILED for row in items)
        item_rules.settle(node, step.reason)
        step.has_ready |= node.state is NodeState.EXPANDING
    node_rows.write(connection, step.workflow_id, nodes)
