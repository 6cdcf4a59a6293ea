"""/workflows: topology."""

from typing import Any

from marshmallow import Schema, fields, validate

from app.features.workflows.api import resource
from app.features.workflows.stored.node_list import drawing_of
from app.features.workflows.stored.topology import Topology, topology_of
from app.features.workflows.stored.workflow_list import get_workflow
from app.kernel.described_fields import answered, described
from app.kernel.errors import WorkflowNodeNotFoundError, WorkflowNotFoundError
from app.web.http.request_fields import Body
from app.web.services import services

_OF_NODE = {"description": "all nodes, of the node `of`; `null` without it", "example": ["publish"]}


class TopologyQuery(Body):
    of = fields.String(validate=validate.Length(1, 100), **described("name of a node", example="score"))


class TopologySchema(Schema):
    """Names of nodes, each after its parents."""

    roots = fields.List(fields.String(), **answered("nodes without parents", example=["extract"]))
    leaves = fields.List(fields.String(), **answered("nodes without children", example=["publish"]))
    dependencies = fields.List(
        fields.String(), required=True, allow_none=True, metadata=_OF_NODE | {"example": ["extract"]}
    )
    dependents = fields.List(fields.String(), required=True, allow_none=True, metadata=_OF_NODE)


@resource.route(
    "GET",
    "/workflows/<workflow_id>/topology",
    query=TopologyQuery,
    returns=TopologySchema,
    errors=[WorkflowNotFoundError, WorkflowNodeNotFoundError],
)
def topology(query: dict[str, Any], workflow_id: str) -> Topology:
    """Get the first and last nodes of a workflow, and all nodes before and behind the node `of`."""
    drawing = drawing_of(services().database, workflow_id)
    if not drawing.nodes:
        get_workflow(services().database, workflow_id)
    return topology_of(drawing, query.get("of"))
