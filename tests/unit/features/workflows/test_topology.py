"""Topology of a workflow."""

import pytest

from app.features.workflows.rules.graph_formats import Drawing, DrawnNode, NodeKind
from app.features.workflows.stored.topology import Topology, topology_of
from app.kernel.errors import WorkflowNodeNotFoundError
from schema.states import NodeState

NAMES = ("a", "b", "left", "right", "join", "last", "alone")
EDGES = [(1, 3), (1, 4), (2, 4), (3, 5), (4, 5), (5, 6)]
GRAPH = Drawing(
    [DrawnNode(number, name, "e", NodeKind.JOB, NodeState.WAITING, None) for number, name in enumerate(NAMES, 1)],
    EDGES,
)


def test_roots_and_leaves_are_the_ends_of_the_graph() -> None:
    assert topology_of(GRAPH) == Topology(["a", "b", "alone"], ["last", "alone"])


def test_nodes_before_and_behind_a_node_are_transitive_and_named_once() -> None:
    found = topology_of(GRAPH, "join")
    assert found.dependencies == ["a", "b", "left", "right"]
    assert found.dependents == ["last"]
    assert topology_of(GRAPH, "a").dependents == ["left", "right", "join", "last"]
    assert topology_of(GRAPH, "alone").dependents == []
    assert topology_of(Drawing([], [])) == Topology([], [])


def test_unknown_node_is_refused() -> None:
    with pytest.raises(WorkflowNodeNotFoundError):
        topology_of(GRAPH, "nope")
