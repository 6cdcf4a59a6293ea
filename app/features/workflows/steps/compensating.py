"""Compensation of a workflow that failed: undoes its succeeded nodes, the last ended first, never two at a time.

Of a node with items, each succeeded item is undone, the last item first, whether the node succeeded or not. While a
workflow compensates, one compensation runs or has an uncounted end: the step that counts the end of the last node
starts the first compensation, and the step that counts a compensation starts the next.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row

from app.features.workflows.rules.inputs import compiled
from app.features.workflows.rules.workflow_bounds import MAX_ITEMS
from app.features.workflows.steps import node_jobs, reporting
from app.features.workflows.steps.item_rows import add_items
from app.features.workflows.steps.node_jobs import NodeJob
from app.features.workflows.steps.step import StepOvertakenError, WorkflowStep
from app.features.workflows.stored import undoing, variables
from app.kernel.sql import NamedStatement, statement
from app.queue.executions.node_key import NodeKey, compensation_of, undone_item
from schema.states import NodeState, WorkflowReason, WorkflowStatus
from schema.tables.workflows import MAY_BE_UNDONE

ENDED = statement(
    "workflow_nodes.ended_compensation",
    """
    SELECT node, item, state, reported_to, execution_id FROM workflow_nodes
     WHERE workflow_id = :workflow_id AND item < 0 AND reported_to IS NOT NULL AND NOT is_reopened
     ORDER BY node, item LIMIT 1
    """,
)
_NEXT = """{nodes}
    SELECT n.node, n.name, n.run, s.item, s.name AS member, s.job_id, s.execution_id, {compensation} AS definition
      FROM n
     CROSS JOIN LATERAL (
       SELECT s.item, s.name, s.job_id, s.execution_id FROM workflow_nodes AS s
        WHERE s.workflow_id = :workflow_id AND s.node = n.node AND s.item < :below AND {is_undoable}
        ORDER BY s.item DESC LIMIT 1) AS s
     ORDER BY n.ended_at DESC, n.node DESC LIMIT 1"""


def _next(name: str, which: str) -> NamedStatement:
    nodes = undoing.NODES.format(may_be_undone=f"{MAY_BE_UNDONE} AND {which}")
    return statement(name, _NEXT, nodes=nodes, compensation=undoing.COMPENSATION, is_undoable=undoing.IS_UNDOABLE)


NEXT_ITEM = _next("workflow_nodes.next_item_to_compensate", "n.node = :node")
NEXT_NODE = _next(
    "workflow_nodes.next_to_compensate",
    """NOT EXISTS (SELECT 1 FROM workflow_nodes AS c
                        WHERE c.workflow_id = n.workflow_id AND c.node = n.node AND c.item < 0 AND c.run = n.run)""",
)
ALL_ITEMS = MAX_ITEMS + 1
RESULT = statement(
    "workflow_nodes.result",
    """
    SELECT j.input, e.output FROM jobs AS j JOIN executions AS e ON e.job_id = j.job_id
     WHERE j.job_id = :job_id AND e.execution_id = :execution_id
    """,
)


def go_on(connection: Connection, step: WorkflowStep) -> None:
    """Count a compensation that has ended, and start the next; a failed compensation ends the workflow."""
    row = connection.execute(ENDED, {"workflow_id": step.workflow_id}).first()
    if row is None:
        return
    step.has_changed = True
    _count(connection, step, row)
    if row.state != NodeState.SUCCEEDED:
        step.compensation = WorkflowStatus.COMPENSATION_FAILED
    else:
        start_next(connection, step, row)


def start_next(connection: Connection, step: WorkflowStep, ended: Row[Any] | None = None) -> None:
    """Start the next compensation, or end the workflow: nothing is left, or it was cancelled, or there is no job.

    `ended` is the compensation that was counted.
    """
    row = _find_next(connection, step.workflow_id, ended)
    if row is None:
        step.compensation = WorkflowStatus.COMPENSATED
    elif step.workflow.status is WorkflowStatus.COMPENSATING and step.reason is WorkflowReason.CANCELLED:
        step.compensation = WorkflowStatus.COMPENSATION_FAILED
    else:
        job = _job(connection, step, row)
        node_jobs.create(connection, step, [job])
        add_items(connection, step.workflow_id, [job])
        step.compensation = WorkflowStatus.COMPENSATING
        if job.reason is not None:
            refused = connection.execute(ENDED, {"workflow_id": step.workflow_id}).one()
            _count(connection, step, refused)
            step.compensation = WorkflowStatus.COMPENSATION_FAILED


def _find_next(connection: Connection, workflow_id: str, ended: Row[Any] | None) -> Row[Any] | None:
    """Find the next item of the node of an ended compensation, else an item of the next node."""
    key = {"workflow_id": workflow_id}
    if ended is not None:
        same = key | {"node": ended.node, "below": undone_item(ended.item)}
        if (row := connection.execute(NEXT_ITEM, same).first()) is not None:
            return row
    return connection.execute(NEXT_NODE, key | {"below": ALL_ITEMS}).first()


def _job(connection: Connection, step: WorkflowStep, row: Row[Any]) -> NodeJob:
    definition: Mapping[str, Any] = row.definition
    template = compiled(definition.get("input", {}), "/compensate/input")
    values = variables.read(connection, step.workflow_id, [template])
    result = connection.execute(RESULT, {"job_id": row.job_id, "execution_id": row.execution_id}).first()
    values["node"] = {} if result is None else {"input": result.input, "output": variables.parsed(result.output)}
    job = NodeJob(
        key=NodeKey(step.workflow_id, row.node, compensation_of(row.item), row.run),
        name="compensate" if row.item == 0 else f"compensate/{row.member or row.item}",
        endpoint=definition["endpoint"],
        definition=definition,
        template=template,
    )
    targets = node_jobs.read_targets(connection, step.workflow, {job.endpoint})
    node_jobs.prepare(job, row.name, step.workflow, values=values, targets=targets)
    return job


def _count(connection: Connection, step: WorkflowStep, row: Row[Any]) -> None:
    if row.execution_id is not None:
        step.running -= 1
    params = {
        "workflow_id": step.workflow_id,
        "nodes": [row.node],
        "items": [row.item],
        "befores": [row.reported_to],
        "states": [row.state],
        "reported": [None],
    }
    if not connection.execute(reporting.REPORTED, params).all():
        raise StepOvertakenError
