"""One workflow: its state in words, its graph, its nodes, and its control."""

from functools import partial

from app.console.http import closed_contents
from app.console.http.actions import Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import form, query
from app.console.http.list_pages import shown_page
from app.console.http.page_rendering import now, to
from app.console.http.request_values import once_a_request
from app.console.views.graph_picture import draw
from app.console.views.json_text import shown_json
from app.console.views.node_lines import node_lines
from app.console.views.reach import reach_of_workflow
from app.features.workflows import control_api
from app.features.workflows.rules.graph_formats import Drawing
from app.features.workflows.rules.retry_plan import RetryPlan, RetryRequest
from app.features.workflows.steps import retrying
from app.features.workflows.stored.critical_path import critical_path, timed_nodes
from app.features.workflows.stored.node_list import NodeView, drawing_of, get_node, page_of_items, page_of_nodes
from app.features.workflows.stored.workflow_list import (
    StoredWorkflow,
    get_workflow,
    history_of_workflow,
    input_of,
)
from app.features.workflows.workflow_explanation import explain_workflow
from app.kernel.db.paging import PageRequest
from app.kernel.errors import TaskExecutorError
from app.queue.executions.execution_cancellation import IfRunning
from app.web.services import services
from schema.states import FINAL_OF_WORKFLOW, NodeState, WorkflowStatus

MAX_PICTURED = 2_000  # nodes of a graph that is read for a picture
MAX_ITEMS = 20
_CAN_RETRY = FINAL_OF_WORKFLOW | {WorkflowStatus.PAUSED}

page = ConsolePage(
    "workflow", "/workflows/<workflow_id>", "Workflow", reads="GET /workflows/<workflow_id>", under="workflows"
)


def _workflow(workflow_id: str) -> StoredWorkflow:
    """Read the workflow once for all regions of a page."""
    return once_a_request("workflow", get_workflow, services().database, workflow_id)


def _drawing(workflow: StoredWorkflow) -> Drawing:
    """Read the graph once for all regions of a page; empty for a workflow that is too large for a picture."""
    if workflow.nodes > MAX_PICTURED:
        return Drawing([], [])
    return once_a_request("drawing", drawing_of, services().database, workflow.workflow_id)


def _node(workflow_id: str) -> NodeView:
    """Read the node of the address once for all parts of a page."""
    return once_a_request("node", get_node, services().database, workflow_id, query().text("node"))


@page.show
def show(workflow_id: str) -> Values:
    found, name = _workflow(workflow_id), query().text("node")
    shown = {"title": found.name, "workflow_id": workflow_id, "name": found.name, "node": name}
    if not (closed_contents.are_closed() and closed_contents.opened("workflow", workflow_id)):
        return shown | {"opened": []}
    definition = [("Definition of " + name, shown_json(_node(workflow_id).definition))] if name else []
    return shown | {"opened": [("Input", shown_json(input_of(services().database, workflow_id))), *definition]}


@page.region("state", live="workflows")
def state(workflow_id: str) -> Values:
    """Read the workflow with its state in words, its controls and its history."""
    database = services().database
    found = _workflow(workflow_id)
    return {
        "workflow": found,
        "explanation": explain_workflow(database, found),
        "history": history_of_workflow(database, workflow_id),
        "input": "" if closed_contents.are_closed() else shown_json(input_of(database, workflow_id)),
        "done": found.nodes - found.open_nodes,
        "took_ms": ((found.ended_at or now()) - found.created_at).total_seconds() * 1000,
        "reach": reach_of_workflow(found.open_nodes, found.running),
        "can_pause": found.status is WorkflowStatus.RUNNING,
        "can_resume": found.status is WorkflowStatus.PAUSED,
        "can_cancel": found.status not in FINAL_OF_WORKFLOW,
        "can_retry": found.status in _CAN_RETRY,
        "failed": found.failed + found.cancelled,
    }


@page.region("graph", live="workflows")
def graph(workflow_id: str) -> Values:
    """Draw the graph with its critical path."""
    database = services().database
    found = _workflow(workflow_id)
    if found.nodes > MAX_PICTURED:
        return {"picture": None, "path": [], "chosen": "", "workflow": found}
    drawing = _drawing(found)
    path = critical_path(timed_nodes(database, workflow_id), drawing.edges)
    picture = draw(drawing.nodes, drawing.edges, [node.number for node in path])
    return {"picture": picture, "path": path, "chosen": query().text("node"), "workflow": found}


@page.region("node", live="workflows")
def node(workflow_id: str) -> Values:
    """Read the node of the address."""
    database = services().database
    view = _node(workflow_id)
    items = page_of_items(database, workflow_id, view.node.node, PageRequest(MAX_ITEMS)).items
    return {
        "view": view,
        "items": items,
        "definition": "" if closed_contents.are_closed() else shown_json(view.definition),
        "can_retry": _workflow(workflow_id).status in _CAN_RETRY,
        "workflow_id": workflow_id,
    }


@page.region("nodes", live="workflows")
def nodes(workflow_id: str) -> Values:
    """Read a page of the nodes, each after its parents."""
    database, states = services().database, [each.value for each in NodeState]
    found = _workflow(workflow_id)
    wanted = query().choice("state", states)
    read = partial(page_of_nodes, database, workflow_id, state=NodeState(wanted) if wanted else None)
    shown = shown_page(read, {"state": wanted}, 100)
    return {
        "lines": node_lines(shown.items, _drawing(found), found.status, now()),
        "shown": shown,
        "state": wanted,
        "states": states,
        "workflow": found,
    }


retry_page = ConsolePage(
    "workflow_retry",
    "/workflows/<workflow_id>/retry",
    "Run nodes again",
    reads="POST /workflows/<workflow_id>/retry",
    under="workflows",
)


@retry_page.show
def preview(workflow_id: str) -> Values:
    """Plan a retry from the ticked nodes, or from all failed nodes, and say which nodes would run again."""
    database = services().database
    found = _workflow(workflow_id)
    names = query().many("from")
    plan, fault = _plan(found, names)
    return {
        "workflow": found,
        "names": names,
        "plan": plan,
        "fault": fault,
        "candidates": page_of_nodes(database, workflow_id, PageRequest(200)).items,
    }


def _plan(found: StoredWorkflow, names: list[str]) -> tuple[RetryPlan | None, str]:
    if not names and not found.failed + found.cancelled:
        return None, ""
    wanted = RetryRequest(names=names) if names else RetryRequest(failed=True)
    try:
        return retrying.preview(services().database, found.workflow_id, wanted), ""
    except TaskExecutorError as error:
        return None, " ".join([error.message, *(each["message"] for each in error.details)])


@action("POST /workflows/<workflow_id>/pause")
def pause(workflow_id: str) -> Done:
    control_api.pause(workflow_id)
    return Done("Paused: no further node starts. Running nodes continue.")


@action("POST /workflows/<workflow_id>/resume")
def resume(workflow_id: str) -> Done:
    control_api.resume(workflow_id)
    return Done("Resumed.")


@action("POST /workflows/<workflow_id>/cancel")
def cancel(workflow_id: str) -> Done:
    """Cancel a workflow; the form says how running nodes end."""
    chosen = form().choice("if_running", [each.value for each in IfRunning])
    control_api.cancel({"if_running": IfRunning(chosen)} if chosen else {}, workflow_id)
    return Done("Cancelled: no further node starts. The workflow ends with its running nodes.")


@action("POST /workflows/<workflow_id>/retry")
def retry(workflow_id: str) -> Done:
    """Run nodes again: the ones that the form names, or all failed nodes."""
    names = form().many("from")
    plan = control_api.retry({"from_nodes": names} if names else {"failed": True}, workflow_id)
    count = len(plan["again"])
    return Done(f"{count} {'node runs' if count == 1 else 'nodes run'} again.", to("workflow", workflow_id=workflow_id))
