"""Graphs of workflows: a body is read, checked and numbered. Pure; all faults of a body are found at once."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from app.catalog.specs.workflow import named_endpoints
from app.features.workflows.rules.node_schemas import MAX_SHOWN, WORKFLOW, load_given
from app.features.workflows.rules.template_checks import TemplateChecks
from app.features.workflows.rules.workflow_bounds import (
    MAX_ALL_ITEMS,
    MAX_DEFINITION_BYTES,
    MAX_EDGES,
    MAX_GROUP_BYTES,
)
from app.kernel.errors import (
    Detail,
    EndpointNotFoundError,
    InvalidRequestError,
    InvalidWorkflowError,
    WorkflowCycleError,
)
from app.kernel.formats import compact_json, numbered
from app.kernel.suggestions import did_you_mean
from schema.job_bounds import MAX_INPUT_BYTES
from schema.states import KeepResponse, OnFailure, RunIf

FindEndpoints = Callable[[Collection[str]], Mapping[str, KeepResponse]]
"""Read the live endpoints with these names, each with its rule for bodies of answers."""

_OF_JOBS = ("input", "priority", "queue", "max_attempts", "labels", "delay")
_SHOWN_OF_CYCLE = 20
_FOR_ITEMS = "Only with `for_each` or `group`."


class GraphNode(NamedTuple):
    """A node with its number, which is larger than its parents' numbers, and its definition as stored (JSON).

    `other_endpoints` are the endpoints of its members and compensations, each once.
    """

    number: int
    name: str
    endpoint: str | None
    other_endpoints: Sequence[str]
    parents: Sequence[int]
    definition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A valid workflow: its nodes have the numbers 1, 2, …"""

    name: str
    labels: Mapping[str, str]
    input: Mapping[str, Any]
    idempotency_key: str | None
    on_failure: OnFailure
    max_parallel: int | None
    deadline_ms: int | None
    nodes: Sequence[GraphNode]

    @property
    def edges(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of parent and child."""
        return ((parent, node.number) for node in self.nodes for parent in node.parents)

    @property
    def endpoints(self) -> set[str]:
        """Names of the endpoints that the nodes need."""
        own = {node.endpoint for node in self.nodes if node.endpoint is not None}
        return own.union(*(node.other_endpoints for node in self.nodes))


def parse(body: Any, find: FindEndpoints, *, is_definition: bool = False) -> Graph:
    """Read a body; a definition has no input yet.

    Raises InvalidRequestError if a field is not valid, WorkflowCycleError if only the order of the nodes is not, else
    InvalidWorkflowError; each has all faults.
    """
    malformed: list[Detail] = []
    given = load_given(WORKFLOW, body, "", malformed)
    nodes: list[dict[str, Any]] = given.get("nodes", [])
    malformed += _kinds(nodes)
    endpoints = find({*named_endpoints(nodes)})
    faults, parents = list(_unknown_endpoints(nodes, endpoints)), _Parents(nodes)
    faults += parents.faults
    order, cycle = parents.order()
    input_ = None if is_definition else given.get("input", {})
    faults += TemplateChecks(nodes, order, parents.of, endpoints, input_).faults()
    definitions = [compact_json(_definition(node, given)) for node in nodes]
    faults += _sizes(nodes, definitions, given.get("input", {}))
    if malformed:
        raise InvalidRequestError.of_faults(*malformed, *faults, *cycle)
    if faults:
        raise InvalidWorkflowError.of_faults(*faults, *cycle)
    if order is None:
        raise WorkflowCycleError(cycle[0]["message"], cycle)
    return _graph(given, dict(zip((node["name"] for node in nodes), definitions, strict=True)), order, parents.of)


class _Parents:
    """The edges of a body, by the names of nodes; `of` has each node and the parents that exist."""

    def __init__(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        self._nodes = nodes
        self._index = {node["name"]: index for index, node in reversed([*enumerate(nodes)]) if "name" in node}
        self.of: dict[str, list[str]] = {}
        self.faults: list[Detail] = []
        for index, node in enumerate(nodes):
            if "name" in node:
                self._add(index, node["name"], node.get("after", []))
        if sum(map(len, self.of.values())) > MAX_EDGES:
            message = f"Must have at most {MAX_EDGES:,} names in `after` of all nodes together. Use gates."
            self.faults.append(Detail(pointer="/nodes", message=message))

    def _add(self, index: int, name: str, after: Sequence[str]) -> None:
        if self._index[name] != index:
            self._fault(f"/nodes/{index}/name", f"There is a node {name!r} already, at /nodes/{self._index[name]}.")
            return
        parents: dict[str, None] = {}
        for position, parent in enumerate(after):
            at = f"/nodes/{index}/after/{position}"
            if parent not in self._index:
                suggestion = did_you_mean(parent, self._index) if len(self.faults) < MAX_SHOWN else ""
                self._fault(at, f"There is no node {parent!r}.{suggestion}")
            elif parent in parents:
                self._fault(at, f"Names {parent!r} twice.")
            else:
                parents[parent] = None
        self.of[name] = list(parents)

    def _fault(self, pointer: str, message: str) -> None:
        self.faults.append(Detail(pointer=pointer, message=message))

    def order(self) -> tuple[list[str] | None, list[Detail]]:
        """Return the nodes, each after its parents, or None and the fault of a cycle."""
        sorter = TopologicalSorter[str](dict.fromkeys(self.of, ()))
        for name, parents in self.of.items():
            sorter.add(name, *parents)
        try:
            return list(sorter.static_order()), []
        except CycleError as error:
            cycle: list[str] = error.args[1]
        # The last edge closes the cycle.
        index = self._index[cycle[-1]]
        position = self._nodes[index]["after"].index(cycle[-2])
        message = f"The nodes form a cycle: {' → '.join(_shortened(cycle))}."
        return None, [Detail(pointer=f"/nodes/{index}/after/{position}", message=message)]


def _shortened(cycle: Sequence[str]) -> Sequence[str]:
    left_out = len(cycle) - _SHOWN_OF_CYCLE
    return (
        cycle if left_out <= 0 else [*cycle[: _SHOWN_OF_CYCLE - 1], f"({numbered(left_out, 'more node')})", cycle[-1]]
    )


def _kinds(nodes: Sequence[Mapping[str, Any]]) -> Iterator[Detail]:
    """Yield the faults of fields that do not fit the kind of their node: job, items, group or gate."""
    for index, node in enumerate(nodes):
        for name, message in _faults_of_kind(node):
            yield Detail(pointer=f"/nodes/{index}/{name}", message=message)


def _faults_of_kind(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "group" in node:
        yield from _faults_of_group(node)
    else:
        gate = "Must be absent without `endpoint`: the node is a gate and has no job."
        if "endpoint" not in node:
            yield from ((name, gate) for name in ("for_each", *_OF_JOBS) if name in node)
        if "for_each" not in node:
            yield from ((name, _FOR_ITEMS) for name in ("tolerate", "max_parallel") if name in node)
    if "compensate" in node and "endpoint" not in node:
        yield "compensate", "Only with `endpoint`; each member of a group has its own."
    if node.get("run_if") is RunIf.ANY_FAILED and not node.get("after"):
        yield "run_if", "Only with `after`: the node starts when a node in `after` did not go well."


def _faults_of_group(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("endpoint", "for_each", *_OF_JOBS):
        if name in node:
            yield name, "Must be absent with `group`: its members have endpoints and jobs of their own."
    names = set[str]()
    for index, name in enumerate(member.get("name") for member in node["group"]):
        if name in names:
            yield f"group/{index}/name", f"There is a member {name!r} already."
        elif name is not None:
            names.add(name)


def _unknown_endpoints(nodes: Sequence[Mapping[str, Any]], endpoints: Collection[str]) -> Iterator[Detail]:
    for index, node in enumerate(nodes):
        jobs = [(f"/nodes/{index}", node)]
        jobs += [(f"/nodes/{index}/group/{number}", member) for number, member in enumerate(node.get("group", ()))]
        jobs += [(f"{at}/compensate", job["compensate"]) for at, job in jobs if "compensate" in job]
        for at, job in jobs:
            if "endpoint" in job and job["endpoint"] not in endpoints:
                yield Detail(pointer=f"{at}/endpoint", message=EndpointNotFoundError.fault_of(job["endpoint"]))


def _sizes(nodes: Sequence[Mapping[str, Any]], definitions: Sequence[str], input_: Any) -> Iterator[Detail]:
    if len(compact_json(input_).encode()) > MAX_INPUT_BYTES:
        yield Detail(pointer="/input", message=f"Must have at most {MAX_INPUT_BYTES:,} bytes as JSON.")
    members = 0
    for index, (node, definition) in enumerate(zip(nodes, definitions, strict=True)):
        members += len(node.get("group", ()))
        most = MAX_GROUP_BYTES if "group" in node else MAX_DEFINITION_BYTES
        if len(definition.encode()) > most:
            yield Detail(pointer=f"/nodes/{index}", message=f"Must have at most {most:,} bytes as JSON.")
    if members > MAX_ALL_ITEMS:
        message = f"Must have at most {MAX_ALL_ITEMS:,} members of groups."
        yield Detail(pointer="/nodes", message=message)


def _definition(node: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of a node as stored: without its name and edges, its rules filled in."""
    stored = _stored(node, without=("name", "after", "group"))
    if "group" in node:
        stored["group"] = [_stored(member) for member in node["group"]]
    stored["run_if"] = node.get("run_if", RunIf.ALL_SUCCEEDED)
    stored["on_failure"] = node.get("on_failure", given.get("on_failure", OnFailure.STOP))
    return stored


def _stored(job: Mapping[str, Any], without: Collection[str] = ()) -> dict[str, Any]:
    return {"delay_ms" if name == "delay" else name: value for name, value in job.items() if name not in without}


def _other_endpoints(node: Mapping[str, Any]) -> list[str]:
    """Return the endpoints of members and compensations, which may be the node's own."""
    own, *others = (node.get("endpoint"), *named_endpoints([node]))
    return sorted({*(others if own is None else others[1:])})


def _graph(
    given: Mapping[str, Any],
    definitions: Mapping[str, str],
    order: Sequence[str],
    parents: Mapping[str, Sequence[str]],
) -> Graph:
    numbers = {name: number for number, name in enumerate(order, 1)}
    by_name = {node["name"]: node for node in given["nodes"]}
    nodes = [
        GraphNode(
            number=number,
            name=name,
            endpoint=by_name[name].get("endpoint"),
            other_endpoints=_other_endpoints(by_name[name]),
            parents=sorted(numbers[parent] for parent in parents[name]),
            definition=definitions[name],
        )
        for name, number in numbers.items()
    ]
    return Graph(
        name=given["name"],
        labels=given.get("labels", {}),
        input=given.get("input", {}),
        idempotency_key=given.get("idempotency_key"),
        on_failure=given.get("on_failure", OnFailure.STOP),
        max_parallel=given.get("max_parallel"),
        deadline_ms=given.get("deadline"),
        nodes=nodes,
    )
