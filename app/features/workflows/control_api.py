"""/workflows: cancel, pause and resume workflows."""

from typing import Any

from app.features.workflows import control
from app.features.workflows.api import resource, view_of
from app.features.workflows.schemas import CancelWorkflowQuery, WorkflowViewSchema
from app.features.workflows.workflow_requests import advance
from app.kernel.errors import ConflictError, WorkflowNotFoundError
from app.web.http.conditions import actor
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
    control.resume(services().database, workflow_id, actor=actor().name)
    return _advanced(workflow_id)


def _advanced(workflow_id: str) -> dict[str, Any]:
    """Let the change take effect at once, and return the workflow."""
    services().database.commit_jointly()  # steps are transactions of their own
    advance(workflow_id)
    return view_of(workflow_id)
