"""Pictures of workflows: no overlaps, each edge to the right, large graphs cut to the important nodes."""

import random
import re

import pytest

from app.console.views.graph_picture import HEIGHT, MAX_DRAWN, WIDTH, Edges, GraphPicture, draw
from app.features.workflows.rules.graph_formats import DrawnNode, NodeKind
from schema.states import NodeState


def node(number: int, state: NodeState = NodeState.SUCCEEDED, name: str = "") -> DrawnNode:
    return DrawnNode(number, name or f"n{number}", "e", NodeKind.JOB, state, None)


def chance_graph(size: int, seed: int) -> tuple[list[DrawnNode], Edges]:
    chance = random.Random(seed)
    edges = [(a, b) for b in range(2, size + 1) for a in range(max(1, b - 9), b) if chance.random() < 0.3]
    return [node(number) for number in range(1, size + 1)], edges


def overlaps(picture: GraphPicture) -> list[tuple[str, str]]:
    boxes = [(placed.x, placed.y, placed.title) for placed in picture.nodes]
    return [
        (a[2], b[2])
        for at, a in enumerate(boxes)
        for b in boxes[at + 1 :]
        if abs(a[0] - b[0]) < WIDTH and abs(a[1] - b[1]) < HEIGHT
    ]


@pytest.mark.parametrize("seed", range(8))
def test_nodes_do_not_overlap_and_lie_inside(seed: int) -> None:
    picture = draw(*chance_graph(40, seed))
    assert len(picture.nodes) == 40
    assert overlaps(picture) == []
    assert all(placed.x >= 0 and placed.x + WIDTH <= picture.width for placed in picture.nodes)
    assert all(placed.y >= 0 and placed.y + HEIGHT <= picture.height for placed in picture.nodes)


@pytest.mark.parametrize("seed", range(8))
def test_edges_run_to_the_right_and_cross_no_node(seed: int) -> None:
    nodes, edges = chance_graph(40, seed)
    picture = draw(nodes, edges)
    assert len(picture.edges) == len(edges)
    for edge in picture.edges:
        numbers = [int(number) for number in re.findall(r"\d+", edge.path)]
        assert numbers[0] < numbers[-2]
    rows = [(placed.x, placed.y, placed.y + HEIGHT) for placed in picture.nodes]
    for edge in picture.edges:
        for end, y, on in re.findall(r"(\d+) (\d+)H(\d+)", edge.path):
            assert not any(int(end) == x and int(on) == x + WIDTH and top < int(y) < below for x, top, below in rows)


def test_critical_path_is_marked() -> None:
    picture = draw([node(1), node(2), node(3)], [(1, 2), (1, 3)], [1, 3])
    assert [placed.is_critical for placed in picture.nodes] == [True, False, True]
    assert [edge.is_critical for edge in picture.edges] == [False, True]


def test_large_graph_keeps_its_path_and_its_failures() -> None:
    nodes = [node(number) for number in range(1, 3_000)] + [node(3_000, NodeState.FAILED), node(3_001)]
    picture = draw(nodes, [(1, 3_001)], [1, 3_001])
    assert {1, 3_000, 3_001} <= {placed.node.number for placed in picture.nodes}
    assert (len(picture.nodes), picture.left_out) == (MAX_DRAWN, 3_001 - MAX_DRAWN)


def test_graph_of_one_node_and_of_none_is_drawn() -> None:
    assert len(draw([node(1)], []).nodes) == 1
    assert draw([], []).nodes == []


def test_long_name_is_cut() -> None:
    (placed,) = draw([node(1, name="a" * 100)], []).nodes
    assert placed.title.endswith("…")
    assert len(placed.title) < 30
