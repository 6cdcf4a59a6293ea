"""Definitions: the specs of endpoints of the type WORKFLOW, checked like a request, and the graphs of their jobs."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from app.catalog.check_spec import input_faults
from app.catalog.templates.nodes import Placeholder
from app.features.workflows.rules.graph import FindEndpoints, Graph, parse
from app.features.workflows.rules.inputs import references
from app.features.workflows.rules.template_checks import OutputChecks, places
from app.features.workflows.stored import workflow_creation
from app.features.workflows.stored.sub_workflows import depth_faults
from app.kernel.db.reads import fetch_of
from app.kernel.errors import Detail, InvalidRequestError, TaskExecutorError
from schema.states import KeepResponse

_OF_GRAPH = ("nodes", "on_failure", "max_parallel", "deadline")
_AT = "/spec"


def check(connection: Connection, name: str, spec: Mapping[str, Any], payload_schema: Any) -> None:
    """Check the spec of an endpoint, and lock the endpoints that it names against deletion.

    Raises InvalidRequestError with all faults.
    """
    keep = live_endpoints(connection)
    try:
        graph = parse(_body(name, spec), keep, is_definition=True)
    except TaskExecutorError as error:
        raise InvalidRequestError.of_faults(*map(_below_spec, error.details)) from None
    locked = connection.execute(workflow_creation.LIVE, {"names": sorted(graph.endpoints)}).all()
    faults = [*_input_faults(spec["nodes"], payload_schema), *_output_faults(graph, spec, keep)]
    faults += depth_faults(fetch_of(connection), spec["nodes"], own=name)
    if len(locked) < len(graph.endpoints):
        faults.append(Detail(pointer="/nodes", message="An endpoint was deleted at this moment. Repeat the request."))
    if faults:
        raise InvalidRequestError.of_faults(*map(_below_spec, faults))


def graph_of(
    name: str, spec: Mapping[str, Any], find: FindEndpoints, *, given: Mapping[str, Any], labels: Mapping[str, str]
) -> Graph:
    """Return the graph of a job of an endpoint; raises TaskExecutorError if an endpoint was deleted in between."""
    return replace(parse(_body(name, spec), find, is_definition=True), input=given, labels=labels)


def _body(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name} | {field: spec[field] for field in _OF_GRAPH if field in spec}


def _below_spec(fault: Detail) -> Detail:
    return Detail(pointer=_AT + fault["pointer"], message=fault["message"])


def live_endpoints(connection: Connection) -> FindEndpoints:
    """Return the reader of endpoints for checks within a transaction."""

    def find(names: Collection[str]) -> Mapping[str, KeepResponse]:
        rows = connection.execute(workflow_creation.ENDPOINTS, {"names": sorted(names)})
        return {row.name: KeepResponse(row.keep_response) for row in rows}

    return find


def _input_faults(nodes: Sequence[Mapping[str, Any]], payload_schema: Any) -> Iterator[Detail]:
    """Yield the variables of the input that the payload spec of the endpoint rules out."""
    for index, node in enumerate(nodes):
        for place, value in places(node):
            found, _faults = references(value, f"/nodes/{index}/{place}")
            paths = [(each.path[2:], each.pointer) for each in found if each.path[:2] == ("workflow", "input")]
            used = [Placeholder("input", path, pointer) for path, pointer in paths if path]
            yield from input_faults(used, payload_schema)


def _output_faults(graph: Graph, spec: Mapping[str, Any], find: FindEndpoints) -> Iterator[Detail]:
    if "output" not in spec:
        return
    nodes = [{"name": node.name, **json.loads(node.definition)} for node in graph.nodes]
    yield from OutputChecks(nodes, [], {}, find(graph.endpoints), None).faults_of(spec["output"])
