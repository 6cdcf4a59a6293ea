"""/workflows: create, list and read workflows, and draw their graphs."""

from dataclasses import asdict
from typing import Any

from flask import Response, request

from app.features.workflows.rules.node_schemas import NewWorkflowSchema
from app.features.workflows.rules.workflow_bounds import MAX_BODY_BYTES
from app.features.workflows.schemas import (
    CriticalPathSchema,
    WorkflowExplanationSchema,
    WorkflowGraphSchema,
    WorkflowHistorySchema,
    WorkflowItemSchema,
    WorkflowNodeQuery,
    WorkflowNodeSchema,
    WorkflowNodeViewSchema,
    WorkflowQuery,
    WorkflowSchema,
    WorkflowViewSchema,
)
from app.features.workflows.stored.critical_path import critical_path_of
from app.features.workflows.stored.node_list import (
    NodeView,
    StoredNode,
    drawing_of,
    get_node,
    page_of_items,
    page_of_nodes,
)
from app.features.workflows.stored.workflow_list import (
    StoredWorkflow,
    WorkflowFilter,
    get_workflow,
    history_of_workflow,
    input_of,
    page_of_workflows,
)
from app.features.workflows.workflow_explanation import explain_workflow, waits_for
from app.features.workflows.workflow_requests import create_workflow
from app.kernel.access.api_keys import Scope
from app.kernel.errors import InvalidWorkflowError, WorkflowCycleError, WorkflowNodeNotFoundError, WorkflowNotFoundError
from app.web.http.idempotent_requests import PARAMETER, REPLAYED
from app.web.http.pagination import page_answer, page_request, page_schema
from app.web.openapi.resource import Resource, text_answer
from app.web.services import services
from schema.states import FINAL_OF_WORKFLOW

MERMAID, DOT = "text/vnd.mermaid", "text/vnd.graphviz"
_DRAWN = 'flowchart TD\n  n1["extract<br>SUCCEEDED"]:::succeeded\n  n2["publish<br>WAITING"]\n  n1 --> n2\n'
_DRAWN_AS_DOT = 'digraph workflow {\n  n1 [label="extract\\nSUCCEEDED", shape=box];\n}\n'

resource = Resource(
    "workflows",
    "Graphs of jobs: each node starts once, when the nodes before it are through.",
    write_scope=Scope.JOBS_WRITE,
)


@resource.blueprint.before_request
def _accept_large_bodies() -> None:
    """A workflow may be larger than a job, by a factor that keeps the bound configurable."""
    if request.method == "POST" and request.path == "/workflows":
        request.max_content_length = max(MAX_BODY_BYTES, services().settings.max_body_bytes)


@resource.route(
    "POST",
    "/workflows",
    body=NewWorkflowSchema,
    returns=WorkflowViewSchema,
    status=201,
    also=200,
    own_key=PARAMETER | {"description": "instead of `idempotency_key` in the body"},
    errors=[InvalidWorkflowError, WorkflowCycleError],
)
def create_(body: dict[str, Any]) -> Any:
    """Create a workflow. A second request with the idempotency key gets 200 with the first workflow, whatever its body.

    The whole graph is checked: the answer to an invalid graph names all faults. The nodes without `after` start at
    once. Up to 10,000 nodes, 100,000 edges and 16 MiB.
    """
    created = create_workflow(body["body"])
    shown = view_of(created.workflow_id)
    return (shown, 201, {}) if created.is_new else (shown, 200, REPLAYED)


@resource.route("GET", "/workflows", query=WorkflowQuery, returns=page_schema(WorkflowSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List workflows, newest first.

    A page may have fewer workflows than `limit`, even none, if few of very many match: continue while there is a
    `cursor`.
    """
    wanted = page_request(query)
    return page_answer(page_of_workflows(services().database, WorkflowFilter(**query), wanted), query, shape)


@resource.route("GET", "/workflows/<workflow_id>", returns=WorkflowViewSchema, errors=[WorkflowNotFoundError])
def get(workflow_id: str) -> dict[str, Any]:
    """Get a workflow with its input, its progress, and the nodes that it waits for."""
    return view_of(workflow_id)


@resource.route(
    "GET",
    "/workflows/<workflow_id>/nodes",
    query=WorkflowNodeQuery,
    returns=page_schema(WorkflowNodeSchema),
    errors=[WorkflowNotFoundError],
)
def list_nodes(query: dict[str, Any], workflow_id: str) -> dict[str, Any]:
    """List the nodes of a workflow, each after its parents."""
    page = page_of_nodes(services().database, workflow_id, page_request(query), query.get("state"))
    if not page.items:
        get_workflow(services().database, workflow_id)
    return page_answer(page, query, node_shape)


@resource.route(
    "GET",
    "/workflows/<workflow_id>/nodes/<node>",
    returns=WorkflowNodeViewSchema,
    errors=[WorkflowNotFoundError, WorkflowNodeNotFoundError],
)
def get_node_(workflow_id: str, node: str) -> dict[str, Any]:
    """Get a node with its definition, and the nodes before and behind it."""
    return node_view_shape(_node(workflow_id, node))


@resource.route(
    "GET",
    "/workflows/<workflow_id>/nodes/<node>/items",
    query=WorkflowNodeQuery,
    returns=page_schema(WorkflowItemSchema),
    errors=[WorkflowNotFoundError, WorkflowNodeNotFoundError],
)
def list_items(query: dict[str, Any], workflow_id: str, node: str) -> dict[str, Any]:
    """List the items of a node that have been started, in their order; their executions have the outputs."""
    number, wanted = _node(workflow_id, node).node.node, page_request(query)
    page = page_of_items(services().database, workflow_id, number, wanted, query.get("state"))
    return page_answer(page, query, asdict)


@resource.route(
    "GET",
    "/workflows/<workflow_id>/graph",
    returns=WorkflowGraphSchema,
    errors=[WorkflowNotFoundError],
    text=[text_answer(MERMAID, _DRAWN), text_answer(DOT, _DRAWN_AS_DOT)],
)
def graph(workflow_id: str) -> Any:
    """Get the graph as JSON, or by the Accept header as a drawing for Mermaid or Graphviz."""
    drawing = drawing_of(services().database, workflow_id)
    if not drawing.nodes:
        get_workflow(services().database, workflow_id)
    match request.accept_mimetypes.best_match(["application/json", MERMAID, DOT], "application/json"):
        case "text/vnd.mermaid":
            return Response(drawing.mermaid(), content_type=MERMAID)
        case "text/vnd.graphviz":
            return Response(drawing.dot(), content_type=DOT)
    return drawing


@resource.route(
    "GET", "/workflows/<workflow_id>/critical-path", returns=CriticalPathSchema, errors=[WorkflowNotFoundError]
)
def critical_path(workflow_id: str) -> dict[str, Any]:
    """Get the chain of nodes that decided the end of a workflow, or that its longest waiting open node waited for."""
    path = critical_path_of(services().database, workflow_id)
    if not path:
        get_workflow(services().database, workflow_id)
    return {"nodes": path}


@resource.route(
    "GET", "/workflows/<workflow_id>/explain", returns=WorkflowExplanationSchema, errors=[WorkflowNotFoundError]
)
def explain(workflow_id: str) -> dict[str, Any]:
    """Explain the state of a workflow: its progress, the nodes that it waits for, and the nodes that failed."""
    workflow = get_workflow(services().database, workflow_id)
    return {"status": workflow.status, "explanation": explain_workflow(services().database, workflow)}


@resource.route(
    "GET", "/workflows/<workflow_id>/history", returns=WorkflowHistorySchema, errors=[WorkflowNotFoundError]
)
def history(workflow_id: str) -> dict[str, Any]:
    """List all changes of the status of a workflow, earliest first."""
    return {"items": history_of_workflow(services().database, workflow_id)}


def view_of(workflow_id: str) -> dict[str, Any]:
    """Return the fields of WorkflowViewSchema; raises WorkflowNotFoundError."""
    database = services().database
    workflow = get_workflow(database, workflow_id)
    names = [] if workflow.status in FINAL_OF_WORKFLOW else waits_for(database, workflow_id)
    return shape(workflow) | {"input": input_of(database, workflow_id), "waits_for": names}


def shape(workflow: StoredWorkflow) -> dict[str, Any]:
    """Return the fields of WorkflowSchema."""
    progress = round(1 - workflow.open_nodes / workflow.nodes, 4)
    more = {"labels": workflow.labels or {}, "created_by": workflow.actor, "progress": progress}
    return asdict(workflow) | more


def node_shape(node: StoredNode) -> dict[str, Any]:
    """Return the fields of WorkflowNodeSchema, its name first."""
    fields = asdict(node)
    return {"name": fields.pop("name"), **fields}


def node_view_shape(found: NodeView) -> dict[str, Any]:
    """Return the fields of WorkflowNodeViewSchema."""
    return node_shape(found.node) | {"definition": found.definition, "after": found.after, "before": found.before}


def _node(workflow_id: str, name: str) -> NodeView:
    try:
        return get_node(services().database, workflow_id, name)
    except WorkflowNodeNotFoundError:
        get_workflow(services().database, workflow_id)
        raise
