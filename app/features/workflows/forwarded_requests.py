"""Requests to cancel executions that are workflows: the workflow is cancelled, and its end ends the execution."""

from contextlib import suppress
from typing import Any

from sqlalchemy import Row

from app.features.workflows import control
from app.kernel.errors import ConflictError, WorkflowNotFoundError
from app.kernel.sql import hot_statement, statement
from app.kernel.unreadable import readable
from app.queue.executions.execution_cancellation import IfRunning
from app.queue.executions.handover import HAS_WORKFLOW
from app.scheduler.chore import ChoreContext

# The conditions on the execution are those of an index that is nearly empty.
REQUESTED = hot_statement(
    "workflows.requested",
    """
    WITH asked AS MATERIALIZED (
      SELECT e.execution_id, e.worker_id,
             CASE WHEN e.abort_requested_at IS NULL THEN 'request' ELSE 'abort' END AS request
        FROM executions AS e
       WHERE e.endpoint_type = 'WORKFLOW' AND e.status = 'RUNNING' AND e.cancel_requested_at IS NOT NULL
         AND {has_workflow} AND e.execution_id > :after
       ORDER BY e.execution_id LIMIT :limit)
    SELECT asked.execution_id, w.workflow_id, asked.request,
           w.workflow_id IS NOT NULL AND w.forwarded IS DISTINCT FROM asked.request AS is_new
      FROM asked LEFT JOIN workflows AS w ON w.workflow_id = asked.worker_id AND w.ended_at IS NULL
     ORDER BY asked.execution_id
    """,
    has_workflow=HAS_WORKFLOW,
)
FORWARDED = statement(
    "workflows.forwarded", "UPDATE workflows SET forwarded = :request WHERE workflow_id = :workflow_id"
)


def forward_requests(context: ChoreContext) -> int:
    """Cancel the workflows whose executions were asked to end; returns their number."""

    def forward(row: Row[Any]) -> None:
        # A workflow that ended in between needs nothing.
        with suppress(ConflictError, WorkflowNotFoundError):
            control.cancel(context.database, row.workflow_id, if_running=IfRunning(row.request), actor=None)
            context.database.fetch(FORWARDED, {"workflow_id": row.workflow_id, "request": row.request})

    done, after = 0, ""
    while not context.stopping():
        rows = context.database.fetch(REQUESTED, {"after": after, "limit": context.batch})
        new = [row for row in rows if row.is_new]
        done += len(readable(forward, new, "workflow {.workflow_id}".format))
        if len(rows) < context.batch:
            break
        after = rows[-1].execution_id
    return done
