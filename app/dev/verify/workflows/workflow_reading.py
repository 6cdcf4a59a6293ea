"""Reading of the workflows of a run: each has the name of the run."""

from collections.abc import Mapping, Sequence

from sqlalchemy import func, select

from app.dev.verify.workflows.workflow_rows import Edge, NodeRow, PlacedJob, WorkflowRow, WorkflowsOfRun
from app.kernel.db import Database
from app.queue.executions.node_key import NodeKey
from schema.tables import jobs, workflow_edges, workflow_nodes, workflows


def open_workflows(database: Database, name: str) -> int:
    """Count the workflows that have not ended."""
    query = select(func.count()).where(workflows.c.name == name, workflows.c.ended_at.is_(None))
    return int(database.fetch(query)[0][0])


def workflows_of_run(
    database: Database, name: str, endpoints: Sequence[str], accepted: Mapping[str, str]
) -> WorkflowsOfRun:
    """Read all rows of the workflows, and the jobs of nodes at the endpoints of the run."""
    rows = tuple(map(WorkflowRow.from_row, database.fetch(select(workflows).where(workflows.c.name == name))))
    known = [row.workflow_id for row in rows]
    nodes = database.fetch(select(workflow_nodes).where(workflow_nodes.c.workflow_id.in_(known)))
    edges = database.fetch(select(workflow_edges).where(workflow_edges.c.workflow_id.in_(known)))
    columns = select(jobs.c.job_id, jobs.c.idempotency_key, jobs.c.created_at)
    found = database.fetch(columns.where(jobs.c.endpoint.in_(endpoints), jobs.c.idempotency_key.is_not(None)))
    places = ((row, NodeKey.parse(row.idempotency_key)) for row in found)
    return WorkflowsOfRun(
        dict(accepted),
        rows,
        tuple(map(NodeRow.from_row, nodes)),
        tuple(Edge(row.workflow_id, row.parent, row.child) for row in edges),
        tuple(PlacedJob(row.job_id, place, row.created_at) for row, place in places if place is not None),
    )
