"""Builder of workflows in the client: parts are joined by names, and the body is valid for the service."""

import pytest
from task_executor_client.workflows import Steps, chain, chord, for_each, gate, group, job, member, parallel

from app.features.workflows.rules.graph import parse
from schema.states import KeepResponse


def edges(steps: Steps) -> set[tuple[str, str]]:
    """Return the edges by the names of their nodes, as the service reads them."""
    graph = parse({"name": "w", "nodes": steps.nodes}, lambda names: dict.fromkeys(names, KeepResponse.ALWAYS))
    names = {node.number: node.name for node in graph.nodes}
    return {(names[parent], names[child]) for parent, child in graph.edges}


def step(name: str) -> Steps:
    return job(name, endpoint="target")


GROUP = group("g", member("x", endpoint="target"), member("y", endpoint="target", input={"a": 1}))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (step("a"), set()),
        (chain(step("a"), step("b"), step("c")), {("a", "b"), ("b", "c")}),
        (parallel(step("a"), step("b")), set()),
        (
            chain(step("a"), parallel(step("b"), chain(step("c"), step("d"))), step("e")),
            {("a", "b"), ("a", "c"), ("c", "d"), ("b", "e"), ("d", "e")},
        ),
        (chord(GROUP, step("body")), {("g", "body")}),
        (chord(parallel(step("a"), step("b")), step("body")), {("a", "body"), ("b", "body")}),
        (chain(for_each("m", [1, 2], endpoint="target", input={"n": "{{item}}"}), gate("end")), {("m", "end")}),
        (chain(step("a"), job("b", endpoint="target", run_if="all_done")), {("a", "b")}),
        (
            chain(parallel(step("a"), job("c", endpoint="target", after=["a"])), step("b")),
            {("a", "c"), ("a", "b"), ("c", "b")},
        ),
        (chain(step("a"), parallel(), step("b")), {("a", "b")}),
        (chain(parallel(), step("a"), chain(step("b"))), {("a", "b")}),
    ],
)
def test_steps_are_joined_by_their_first_and_last_nodes(steps: Steps, expected: set[tuple[str, str]]) -> None:
    assert edges(steps) == expected


def test_parts_stay_unchanged_and_can_be_used_again() -> None:
    part = step("b")
    chain(step("a"), part)
    assert part.nodes == [{"name": "b", "endpoint": "target"}]
    assert GROUP.nodes[0]["group"][1] == {"name": "y", "endpoint": "target", "input": {"a": 1}}
