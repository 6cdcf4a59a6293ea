"""Cancellation of the unfinished executions of a cancelled workflow, 500 in a step."""

from sqlalchemy import Connection

from app.features.workflows.rules.model import STEP
from app.features.workflows.steps.step import WorkflowStep
from app.kernel.sql import statement
from app.queue.executions.execution_cancellation import IfRunning, cancel_executions

NO_REQUEST = "none"
"""Value of `cancelling` if running executions run to their end."""

CANCELLABLE = statement(
    "workflows.cancellable",
    """
    SELECT n.execution_id FROM workflow_nodes AS n JOIN executions AS e ON e.execution_id = n.execution_id
     WHERE n.workflow_id = :workflow_id AND n.state = 'RUNNING'
       AND (e.status IN ('PENDING', 'QUEUED', 'RETRYING')
            OR e.status = 'RUNNING' AND e.cancel_requested_at IS NULL AND CAST(:request AS BOOLEAN)
            OR e.status = 'RUNNING' AND e.abort_requested_at IS NULL AND CAST(:abort AS BOOLEAN))
     ORDER BY n.node, n.item LIMIT :limit
    """,
)
CANCELLED = statement("workflows.cancelled", "UPDATE workflows SET cancelling = NULL WHERE workflow_id = :workflow_id")


def cancel_some(connection: Connection, step: WorkflowStep) -> None:
    """Cancel up to 500 executions, or ask them to end; their ends arrive through the outbox."""
    given = step.workflow.cancelling
    if_running = None if given is None or given == NO_REQUEST else IfRunning(given)
    params = {
        "workflow_id": step.workflow_id,
        "request": if_running is IfRunning.REQUEST,
        "abort": if_running is IfRunning.ABORT,
        "limit": STEP,
    }
    found = connection.execute(CANCELLABLE, params).scalars().all()
    if found:
        # An execution that ended in between is refused.
        cancel_executions(connection, found, if_running=if_running, actor=None)
    if len(found) < STEP:
        connection.execute(CANCELLED, {"workflow_id": step.workflow_id})
    step.has_changed = True
