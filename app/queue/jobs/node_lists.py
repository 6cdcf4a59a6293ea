"""Jobs and executions of the nodes of a workflow, in the order of the nodes: pages by the primary key of nodes.

After a retry, only the jobs of the latest run of a node are listed.
"""

from typing import Any, TypeVar

from sqlalchemy import Row, func, select, tuple_

from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, Position
from app.queue.executions.execution_records import Execution
from app.queue.jobs import job_queries
from app.queue.jobs.job_model import Job
from app.queue.reading.execution_queries import find_executions
from schema import tables

T = TypeVar("T")
_N, _J = tables.workflow_nodes.c, tables.jobs.c


def jobs_of_workflow(database: Database, workflow_id: str, request: PageRequest) -> Page[Job]:
    """Read a page of the jobs of nodes and items; it is short if inputs are large."""
    shown, after = _nodes(database, workflow_id, request)
    found = {job.job_id: job for job in job_queries.find_jobs(database, [row.job_id for row in shown])}
    return Page([found[row.job_id] for row in shown if row.job_id in found], after)  # unless pruned in between


def executions_of_workflow(database: Database, workflow_id: str, request: PageRequest) -> Page[Execution]:
    """Read a page of the executions of nodes and items, without their input."""
    shown, after = _nodes(database, workflow_id, request)
    return Page(find_executions(database, [row.execution_id for row in shown]), after)


def _nodes(database: Database, workflow_id: str, request: PageRequest) -> tuple[list[Row[Any]], Position | None]:
    """Read the next nodes that became jobs, and the position behind them; None at the end."""
    query = (
        select(_N.node, _N.item, _N.job_id, _N.execution_id, func.now().label("at"), job_queries.SIZE)
        .join_from(tables.workflow_nodes, tables.jobs, _J.job_id == _N.job_id)
        .where(_N.workflow_id == workflow_id)
        .order_by(_N.node, _N.item)
        .limit(request.limit + 1)
    )
    if request.after is not None:
        node, _, item = request.after.key.partition("-")
        query = query.where(tuple_(_N.node, _N.item) > (int(node), int(item)))
    rows = database.fetch(query)
    shown = list(rows[: job_queries.fitting([row.size for row in rows[: request.limit]])])
    is_last = len(shown) == len(rows)
    return shown, None if is_last else Position(shown[-1].at, f"{shown[-1].node}-{shown[-1].item}")
