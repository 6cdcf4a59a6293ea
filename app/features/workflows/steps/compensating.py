"""Compensation of a workflow that failed: undoes its succeeded nodes, the last ended first, one after the other.

The compensation of a node is its item -1. While a workflow compensates, one compensation runs or has
an uncounted end: the step that counts the end of the last node starts the first compensation, and the step that counts
a compensation starts the next.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row

from app.features.workflows.rules.inputs import compiled
from app.features.workflows.steps import node_jobs, reporting
from app.features.workflows.steps.item_rows import add_items
from app.features.workflows.steps.node_jobs import NodeJob
from app.features.workflows.steps.step import StepOvertakenError, WorkflowStep
from app.features.workflows.stored import variables
from app.kernel.sql import statement
from app.queue.executions.node_key import COMPENSATION, NodeKey
from app.queue.jobs.endpoint_cache import read_targets
from schema.states import NodeState, WorkflowReason, WorkflowStatus

ENDED = statement(
    "workflow_nodes.ended_compensation",
    """
    SELECT node, item, state, reported_to, execution_id FROM workflow_nodes
     WHERE workflow_id = :workflow_id AND item = {compensation} AND reported_to IS NOT NULL AND NOT is_reopened
     ORDER BY node, item LIMIT 1
    """,
    compensation=COMPENSATION,
)
NEXT = statement(
    "workflow_nodes.next_to_compensate",
    """
    SELECT n.node, n.name, n.run, n.job_id, n.definition->'compensate' AS definition FROM workflow_nodes AS n
     WHERE n.workflow_id = :workflow_id AND n.item = 0 AND n.state = 'SUCCEEDED'
       AND (n.definition->'compensate') IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM workflow_nodes AS c
                        WHERE c.workflow_id = n.workflow_id AND c.node = n.node AND c.item = {compensation}
                          AND c.run = n.run)
     ORDER BY n.ended_at DESC, n.node DESC LIMIT 1
    """,
    compensation=COMPENSATION,
)
INPUT = statement("jobs.input_of_node", "SELECT input FROM jobs WHERE job_id = :job_id")


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
        start_next(connection, step)


def start_next(connection: Connection, step: WorkflowStep) -> None:
    """Start the next compensation, or end the workflow: nothing is left, or it was cancelled, or there is no job."""
    row = connection.execute(NEXT, {"workflow_id": step.workflow_id}).first()
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


def _job(connection: Connection, step: WorkflowStep, row: Row[Any]) -> NodeJob:
    definition: Mapping[str, Any] = row.definition
    template = compiled(definition.get("input", {}), "/compensate/input")
    of_node = compiled(f"{{{{parents.{row.name}.status}}}}")
    values = variables.read(connection, step.workflow_id, [template, of_node])
    given = connection.execute(INPUT, {"job_id": row.job_id}).scalar()
    values["node"] = values["parents"].get(row.name, {}) | ({} if given is None else {"input": given})
    job = NodeJob(
        key=NodeKey(step.workflow_id, row.node, COMPENSATION, row.run),
        name="compensate",
        endpoint=definition["endpoint"],
        definition=definition,
        template=template,
    )
    targets = read_targets(connection, {job.endpoint})
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
