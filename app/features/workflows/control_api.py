"""/workflows: cancel, pause, resume and retry workflows."""

from functools import partial
from typing import Any

from app.features.workflows import control
from app.features.workflows.api import resource, view_of
from app.features.workflows.retry_schemas import RetryWorkflowSchema, WorkflowRetrySchema
from app.features.workflows.rules.retry_plan import RetryPlan, RetryRequest
from app.features.workflows.schemas import CancelWorkflowQuery, WorkflowViewSchema
from app.features.workflows.steps import retrying
from app.features.workflows.workflow_requests import advance
from app.kernel.errors import ConflictError, WorkflowNotFoundError
from app.web.http.conditions import actor
from app.web.http.idempotent_requests import after_commit, event_id
from app.web.services import services


@resource.route(
    "POST",
    "/workflows/<workflow_id>/cancel",
    query=CancelWorkflowQuery,
    returns=WorkflowViewSchema,
    status=202,
    errors=[WorkflowNotFoundError, ConflictError],
)
def cancel(query: dict[str, Any], workflow_id: str) -> dict[str, Any]:
    """Cancel a workflow: no further node starts, also no handler and no clean-up; 409 if it has ended.

    Running nodes run to their end. With `if_running=request`, they end after their current attempt; with
    `if_running=abort`, that attempt is aborted. The workflow is CANCELLED once nothing runs. Repeating the request
    changes nothing.
    """
    control.cancel(services().database, workflow_id, if_running=query.get("if_running"), actor=actor().name)
    return _advanced(workflow_id)


@resource.route(
    "POST", "/workflows/<workflow_id>/pause", returns=WorkflowViewSchema, errors=[WorkflowNotFoundError, ConflictError]
)
def pause(workflow_id: str) -> dict[str, Any]:
    """Pause a workflow: no node starts until it is resumed, and running nodes continue; 409 if it stops or ended."""
    control.pause(services().database, workflow_id, actor=actor().name)
    return view_of(workflow_id)


@resource.route(
    "POST", "/workflows/<workflow_id>/resume", returns=WorkflowViewSchema, errors=[WorkflowNotFoundError, ConflictError]
)
def resume(workflow_id: str) -> dict[str, Any]:
    """Resume a paused workflow; 409 if it is not paused."""
    control.resume(services().database, workflow_id, actor=actor().name, event_id=event_id())
    return _advanced(workflow_id)


@resource.route(
    "POST",
    "/workflows/<workflow_id>/retry",
    body=RetryWorkflowSchema,
    returns=WorkflowRetrySchema,
    errors=[WorkflowNotFoundError, ConflictError],
)
def retry(body: dict[str, Any], workflow_id: str) -> dict[str, Any]:
    """Run nodes of an ended or paused workflow again, and all nodes behind them; 409 while it runs.

    Each node gets a new job; other nodes keep their results. Nodes that were skipped when the workflow stopped wait
    again. A deadline starts again. With `dry_run`, the answer only names the nodes.
    """
    database, dry_run = services().database, body.get("dry_run", False)
    wanted = RetryRequest(names=body.get("from_nodes", ()), failed=body.get("failed", False))
    if dry_run:
        return retry_shape(workflow_id, retrying.preview(database, workflow_id, wanted), dry_run=True)
    plan = retrying.retry(database, workflow_id, wanted, actor=actor().name)
    after_commit(partial(advance, workflow_id))  # steps are transactions of their own
    return retry_shape(workflow_id, plan, dry_run=False)


def retry_shape(workflow_id: str, plan: RetryPlan, *, dry_run: bool) -> dict[str, Any]:
    """Return the fields of WorkflowRetrySchema."""
    return {
        "workflow_id": workflow_id,
        "status": plan.status,
        "dry_run": dry_run,
        "again": [each.before.name for each in plan.again],
        "kept": [node.name for node in plan.kept],
    }


def _advanced(workflow_id: str) -> dict[str, Any]:
    """Let the change take effect at once, and return the workflow."""
    services().database.commit_jointly()  # steps are transactions of their own
    advance(workflow_id)
    return view_of(workflow_id)
