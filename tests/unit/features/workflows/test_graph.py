"""Graphs of workflows: valid bodies are numbered, and a refusal names all faults of a body with their pointers."""

import json
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from app.features.workflows.rules.graph import Graph, parse
from app.features.workflows.rules.workflow_bounds import MAX_DEFINITION_BYTES, MAX_EDGES, MAX_ITEMS, MAX_NODES
from app.kernel.errors import InvalidRequestError, InvalidWorkflowError, TaskExecutorError, WorkflowCycleError
from schema.job_bounds import MAX_INPUT_BYTES
from schema.states import KeepResponse

ENDPOINTS = {
    "target": KeepResponse.ALWAYS,
    "silent": KeepResponse.NEVER,
    "terse": KeepResponse.ON_ERROR,
}


def find(names: Collection[str]) -> Mapping[str, KeepResponse]:
    return {name: keep for name, keep in ENDPOINTS.items() if name in names}


def node(name: str, *after: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "endpoint": "target"} | ({"after": [*after]} if after else {}) | fields


def gate(name: str, *after: str) -> dict[str, Any]:
    return {"name": name, "after": [*after]}


def workflow(*nodes: Any, **fields: Any) -> dict[str, Any]:
    return {"name": "w", "nodes": [*nodes]} | fields


def parsed(*nodes: Any, **fields: Any) -> Graph:
    return parse(workflow(*nodes, **fields), find)


def refusal(body: Any) -> TaskExecutorError:
    with pytest.raises(TaskExecutorError) as caught:
        parse(body, find)
    return caught.value


def reading(template: str, *before: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a workflow whose last node has a template in its input."""
    names = [each["name"] for each in before]
    return workflow(*before, node("last", *names, input={"a": ["x", template]}, **fields), input={"rows": [{"id": 1}]})


GROUP = {"name": "g", "group": [{"name": "one", "endpoint": "target"}, {"name": "two", "endpoint": "target"}]}
EACH = node("e", for_each=[1, 2])


def test_nodes_are_numbered_after_their_parents() -> None:
    graph = parsed(node("end", "left", "right"), node("left", "start"), node("right", "start"), node("start"))
    names = {each.number: each.name for each in graph.nodes}
    assert sorted(names) == [1, 2, 3, 4]
    assert {(names[parent], names[child]) for parent, child in graph.edges} == {
        *(("start", "left"), ("start", "right"), ("left", "end"), ("right", "end")),
    }
    assert all(parent < child for parent, child in graph.edges)


def test_definition_has_the_rules_that_apply() -> None:
    given = node("b", "a", on_failure="continue", run_if="all_done", delay="10s", priority=7, labels={"k": "v"})
    first, second = parsed(node("a"), given).nodes
    assert json.loads(first.definition) == {"endpoint": "target", "run_if": "all_succeeded", "on_failure": "stop"}
    assert json.loads(second.definition) == {
        "endpoint": "target",
        "run_if": "all_done",
        "on_failure": "continue",
        "delay_ms": 10_000,
        "priority": 7,
        "labels": {"k": "v"},
    }
    (inherited,) = parsed(node("a"), on_failure="continue").nodes
    assert json.loads(inherited.definition)["on_failure"] == "continue"


def test_members_of_a_group_keep_their_order_and_fields() -> None:
    members = [
        {"name": "one", "endpoint": "target", "delay": 5},
        {"name": "two", "endpoint": "silent", "input": {"a": 1}},
    ]
    (group,) = parsed({"name": "g", "group": members, "tolerate": {"percent": 50}, "max_parallel": 1}).nodes
    stored = json.loads(group.definition)
    assert group.endpoint is None
    assert stored["group"] == [{"name": "one", "endpoint": "target", "delay_ms": 5}, members[1]]
    assert (stored["tolerate"], stored["max_parallel"]) == ({"percent": 50}, 1)


def test_null_counts_as_absent() -> None:
    graph = parse({"name": "w", "nodes": [node("a", input=None, priority=None)], "labels": None}, find)
    assert json.loads(graph.nodes[0].definition).keys() == {"endpoint", "run_if", "on_failure"}
    assert (graph.labels, graph.input, graph.max_parallel) == ({}, {}, None)


POSSIBLE = [
    reading("{{workflow.id}}"),
    reading("{{workflow.input.rows.0.id}}"),
    reading("text {{parents.a.output.body.x}} and {{ parents.a.status }}", node("a")),
    reading("{{parents.a.error.message}}", node("a")),
    reading("{{parents.a.execution_id}}", node("a")),
    reading("{{parents.a.output.status_code}}", node("a", endpoint="silent")),
    reading("{{parents.a.output}}", node("a"), gate("b", "a")),
    reading("{{parents.b.status}}", node("a"), gate("b", "a")),
    reading("{{parents.g.results}}", GROUP),
    reading("{{parents.e.count}} {{parents.e.succeeded}} {{parents.e.failed}}", EACH),
    reading("{{item.id}} {{item_number}}", for_each="{{workflow.input.rows}}"),
]


@pytest.mark.parametrize("body", POSSIBLE, ids=lambda body: body["nodes"][-1]["input"]["a"][1])
def test_template_with_a_possible_value_is_accepted(body: dict[str, Any]) -> None:
    assert len(parse(body, find).nodes) == len(body["nodes"])


IN_INPUT = "/nodes/1/input/a/1"
FAULTS: dict[str, tuple[Any, dict[str, str]]] = {
    "no object": ([], {"": "Must be an object."}),
    "nothing": ({}, {"/name": "Required.", "/nodes": "Required."}),
    "no nodes": (workflow(), {"/nodes": "length from 1"}),
    "too many nodes": ({"name": "w", "nodes": [None] * (MAX_NODES + 1)}, {"/nodes": f"to {MAX_NODES}"}),
    "nodes as object": ({"name": "w", "nodes": {}}, {"/nodes": "Must be a list."}),
    "no node": (workflow(1), {"/nodes/0": "Must be an object."}),
    "unknown fields": (
        workflow(node("a", inptu={}), ndoes=[]),
        {"/nodes/0/inptu": "Did you mean 'input'?", "/ndoes": "Did you mean 'nodes'?"},
    ),
    "values": (
        workflow(
            node("A b"),
            node("b", priority=256, queue="Q", max_attempts=0, input=[], labels={"": "x"}, delay="soon"),
            node("c", run_if="never", on_failure="undo", after="a", for_each=[], max_parallel=0, tolerate={}),
        ),
        {
            "/nodes/0/name": "lower-case",
            "/nodes/1/priority": "from 0 to 255",
            "/nodes/1/queue": "lower-case",
            "/nodes/1/max_attempts": "from 1",
            "/nodes/1/input": "Must be an object.",
            "/nodes/1/labels/": "A key has",
            "/nodes/1/delay": "duration",
            "/nodes/2/run_if": "Must be one of",
            "/nodes/2/on_failure": "Must be one of: stop, continue, compensate.",
            "/nodes/2/after": "Must be a list.",
            "/nodes/2/max_parallel": "from 1",
            "/nodes/2/tolerate": "either `count` or `percent`",
        },
    ),
    "reserved key": (workflow(node("a"), idempotency_key="te:x"), {"/idempotency_key": "reserved"}),
    "same name": (workflow(node("a"), node("b"), node("a")), {"/nodes/2/name": "at /nodes/0"}),
    "unknown parents": (
        workflow(node("extract"), node("b", "extrcat", "extract", "extract")),
        {"/nodes/1/after/0": "Did you mean 'extract'?", "/nodes/1/after/2": "twice"},
    ),
    "unknown endpoints": (
        workflow(node("a", endpoint="gone"), {"name": "g", "group": [{"name": "m", "endpoint": "lost"}]}),
        {"/nodes/0/endpoint": "'gone'", "/nodes/1/group/0/endpoint": "'lost'"},
    ),
    "group with a job": (
        workflow(GROUP | {"endpoint": "target", "input": {}, "for_each": []}),
        {"/nodes/0/endpoint": "`group`", "/nodes/0/input": "`group`", "/nodes/0/for_each": "`group`"},
    ),
    "empty group": (workflow({"name": "g", "group": []}), {"/nodes/0/group": "length from 1"}),
    "same member": (workflow({"name": "g", "group": [GROUP["group"][0]] * 2}), {"/nodes/0/group/1/name": "already"}),
    "member": (
        workflow({"name": "g", "group": [{"after": []}]}),
        {
            "/nodes/0/group/0/after": "Unknown field.",
            "/nodes/0/group/0/name": "Required.",
            "/nodes/0/group/0/endpoint": "Required.",
        },
    ),
    "gate with a job": (
        workflow({"name": "a", "input": {}, "delay": 1, "for_each": []}),
        {f"/nodes/0/{name}": "gate" for name in ("input", "delay", "for_each")},
    ),
    "limits of one job": (
        workflow(node("a", tolerate={"count": 1}, max_parallel=1)),
        {"/nodes/0/tolerate": "`for_each` or `group`", "/nodes/0/max_parallel": "`for_each` or `group`"},
    ),
    "long list": (workflow(node("a", for_each=[0] * MAX_ITEMS)), {"/nodes/0": "16,384 bytes"}),
    "handler of nothing": (workflow(node("a", run_if="any_failed")), {"/nodes/0/run_if": "`after`"}),
    "large definition": (workflow(node("a", input={"x": "y" * MAX_DEFINITION_BYTES})), {"/nodes/0": "16,384 bytes"}),
    "large input": (workflow(node("a"), input={"x": "y" * MAX_INPUT_BYTES}), {"/input": "1,048,576 bytes"}),
    "many edges": (
        workflow(*(node(f"n{n}", *(f"n{m}" for m in range(n))) for n in range(450))),
        {"/nodes": f"at most {MAX_EDGES:,} names"},
    ),
    "no variable": (reading("{{input.x}}", node("a")), {IN_INPUT: "not a variable"}),
    "variable of nothing": (reading("{{workflow.name}}", node("a")), {IN_INPUT: "not a variable"}),
    "absent input": (reading("{{workflow.input.rows.1}}", node("a")), {IN_INPUT: "no such field"}),
    "unbalanced": (reading("{{workflow.id", node("a")), {IN_INPUT: "not balanced"}),
    "no node of a template": (reading("{{parents.b.output}}", node("a")), {IN_INPUT: "no node 'b'"}),
    "child": (
        workflow(node("a", input={"x": "{{parents.b.status}}"}), node("b", "a")),
        {"/nodes/0/input/x": "Name it in `after`"},
    ),
    "itself": (workflow(node("a", input={"x": "{{parents.a.status}}"})), {"/nodes/0/input/x": "Name it in `after`"}),
    "sibling": (
        workflow(node("a"), node("b"), node("c", "a", input={"x": "{{parents.b.status}}"})),
        {"/nodes/2/input/x": "Name it in `after`"},
    ),
    "unknown field of a parent": (reading("{{parents.a.body}}", node("a")), {IN_INPUT: "error, execution_id, output"}),
    "part of a status": (reading("{{parents.a.status.x}}", node("a")), {IN_INPUT: "has no parts"}),
    "results of one job": (reading("{{parents.a.results}}", node("a")), {IN_INPUT: "a node with one job"}),
    "output of several": (reading("{{parents.e.output}}", EACH), {IN_INPUT: "a node with several jobs"}),
    "output of a gate": (reading("{{parents.b.output}}", gate("b")), {IN_INPUT: "a gate"}),
    "body that is not kept": (
        workflow(
            node("a", endpoint="silent"),
            node("b", endpoint="terse"),
            node("c", "a", "b", input={"x": "{{parents.a.output.body}}", "y": "{{parents.b.output.body.z}}"}),
        ),
        {"/nodes/2/input/x": "keep_response: never", "/nodes/2/input/y": "keep_response: on_error"},
    ),
    "item without items": (reading("{{item}}", node("a")), {IN_INPUT: "`for_each`"}),
    "item of a member": (
        workflow({"name": "g", "group": [{"name": "m", "endpoint": "target", "input": {"x": "{{item}}"}}]}),
        {"/nodes/0/group/0/input/x": "`for_each`"},
    ),
    "items of an item": (workflow(node("a", for_each="{{item}}")), {"/nodes/0/for_each": "`for_each`"}),
    "no list": (workflow(node("a", for_each="abc")), {"/nodes/0/for_each": "a list, or one template"}),
}


@pytest.mark.parametrize("case", FAULTS)
def test_each_fault_is_named_with_its_pointer(case: str) -> None:
    body, expected = FAULTS[case]
    found = {detail["pointer"]: detail["message"] for detail in refusal(body).details}
    assert found.keys() == expected.keys()
    assert {at: message for at, message in found.items() if expected[at] not in message} == {}


def test_cycle_is_named_in_the_order_of_its_nodes() -> None:
    error = refusal(workflow(node("start"), node("a", "start", "c"), node("b", "a"), node("c", "b")))
    assert isinstance(error, WorkflowCycleError)
    cycle = error.message.removeprefix("The nodes form a cycle: ").removesuffix(".").split(" → ")
    assert cycle in (["a", "b", "c", "a"], ["b", "c", "a", "b"], ["c", "a", "b", "c"])
    closing = {"a": "/nodes/1/after/1", "b": "/nodes/2/after/0", "c": "/nodes/3/after/0"}
    assert [detail["pointer"] for detail in error.details] == [closing[cycle[0]]]


def test_node_after_itself_is_a_cycle() -> None:
    error = refusal(workflow(node("a", "a")))
    assert (error.code, error.message) == ("WORKFLOW_CYCLE", "The nodes form a cycle: a → a.")


def test_long_cycle_is_shortened() -> None:
    size = MAX_NODES
    error = refusal(workflow(*(node(f"n{n}", f"n{(n + 1) % size}") for n in range(size))))
    assert isinstance(error, WorkflowCycleError)
    assert "more nodes)" in error.message
    assert len(error.message) < 500


def test_refusal_has_the_faults_of_fields_and_of_the_graph() -> None:
    error = refusal(workflow(node("a", "b"), node("b", "a", priority=-1), node("c", "d", endpoint="gone")))
    assert isinstance(error, InvalidRequestError)
    assert {detail["pointer"] for detail in error.details} == {
        *("/nodes/1/priority", "/nodes/2/after/0", "/nodes/2/endpoint"),
        next(detail["pointer"] for detail in error.details if "cycle" in detail["message"]),
    }
    assert isinstance(refusal(workflow(node("a", "b"), node("b", "a", endpoint="gone"))), InvalidWorkflowError)


def test_refusal_of_a_cycle_has_the_faults_of_templates() -> None:
    """In a cycle any node may be an ancestor, so a variable of another node is no fault."""
    texts = {"x": "{{parents.a.output}}", "y": "{{nothing.z}}", "z": "{{", "w": "{{parents.no.output}}"}
    error = refusal(workflow(node("a", "b"), node("b", "a", input=texts)))
    faults = {detail["pointer"]: detail["message"] for detail in error.details if "cycle" not in detail["message"]}
    assert faults.keys() == {"/nodes/1/input/y", "/nodes/1/input/z", "/nodes/1/input/w"}
    assert "{{workflow.input.NAME}}" in faults["/nodes/1/input/z"]
    assert len(error.details) == 4


def test_ancestor_far_up_may_be_read() -> None:
    names = [f"n{number}" for number in range(500)]
    nodes = [node(name, *names[max(0, n - 1) : n]) for n, name in enumerate(names)]
    nodes[-1]["input"] = {"x": "{{parents.n0.output.body}}"}
    assert len(parsed(*nodes).nodes) == 500
