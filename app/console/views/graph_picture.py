"""Picture of a workflow: layers of nodes from left to right, and the edges between them. Pure.

A layer holds the nodes at one distance from the first nodes. Edges over several layers pass between the nodes of the
layers, so no edge crosses a node.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from app.features.workflows.rules.graph_formats import DrawnNode

MAX_DRAWN = 150  # nodes
MAX_BENDS = 2_000  # places where edges pass through layers
WIDTH, HEIGHT = 176, 46  # of a node
_GAP_X, _GAP_Y, _BEND, _MARGIN = 56, 14, 6, 8
_SWEEPS, _ALIGNMENTS = 6, 8
_SHOWN = 22  # characters of a name

Edges = Sequence[tuple[int, int]]


class PlacedNode(NamedTuple):
    """A node with its left upper corner; `title` fits into it."""

    node: DrawnNode
    x: int
    y: int
    title: str
    is_critical: bool


class PlacedEdge(NamedTuple):
    """An edge as the path of an SVG."""

    path: str
    is_critical: bool


class GraphPicture(NamedTuple):
    """A picture and its size; `left_out` counts the nodes that are not drawn."""

    width: int
    height: int
    nodes: Sequence[PlacedNode]
    edges: Sequence[PlacedEdge]
    left_out: int = 0


@dataclass(slots=True)
class _Place:
    """A node, or a bend of an edge, in its layer; `y` is its middle."""

    layer: int
    size: float
    y: float = 0.0


def draw(nodes: Sequence[DrawnNode], edges: Edges, critical: Sequence[int] = ()) -> GraphPicture:
    """Lay out a graph; the numbers of its nodes increase along each edge. `critical` are the nodes of a path."""
    shown = _chosen(nodes, critical)
    kept = [edge for edge in edges if edge[0] in shown and edge[1] in shown]
    layers = _layers(sorted(shown), kept)
    places, chains = _places(layers, kept)
    order = _ordered(places, chains)
    _align(order, places, chains)
    top = min((place.y - place.size / 2 for place in places), default=0.0) - _MARGIN
    for place in places:
        place.y -= top
    by_number = dict(zip(layers, places, strict=False))
    on_path = set(pairwise(critical))
    return GraphPicture(
        width=(max(layers.values(), default=0) + 1) * (WIDTH + _GAP_X) - _GAP_X + 2 * _MARGIN,
        height=round(max((place.y + place.size / 2 for place in places), default=0.0)) + _MARGIN,
        nodes=[
            _placed(node, by_number[node.number], node.number in critical) for node in nodes if node.number in shown
        ],
        edges=[
            PlacedEdge(_path([places[each] for each in chain]), edge in on_path)
            for edge, chain in zip(kept, chains, strict=True)
        ],
        left_out=len(nodes) - len(shown),
    )


def _chosen(nodes: Sequence[DrawnNode], critical: Collection[int]) -> set[int]:
    """Choose the nodes of a large graph: the critical path, then busy and failed nodes, then the first nodes."""
    rank = {"RUNNING": 1, "EXPANDING": 1, "FAILED": 1, "CANCELLED": 2}
    by_rank = sorted(nodes, key=lambda node: (node.number not in critical, rank.get(node.state, 3), node.number))
    return {node.number for node in by_rank[:MAX_DRAWN]}


def _layers(numbers: Sequence[int], edges: Edges) -> dict[int, int]:
    """Return the layer of each node: one behind the last of its parents."""
    layers = dict.fromkeys(numbers, 0)
    for parent, child in sorted(edges, key=lambda edge: edge[::-1]):
        layers[child] = max(layers[child], layers[parent] + 1)
    return layers


def _places(layers: Mapping[int, int], edges: Edges) -> tuple[list[_Place], list[list[int]]]:
    """Return the places of nodes and bends, and for each edge the indexes of its places."""
    places = [_Place(layer, HEIGHT) for layer in layers.values()]
    index = {number: at for at, number in enumerate(layers)}
    chains, bends = list[list[int]](), 0
    for parent, child in edges:
        between = range(layers[parent] + 1, layers[child])
        bends += len(between)
        first = len(places)
        if bends <= MAX_BENDS:
            places += [_Place(layer, _BEND) for layer in between]
        chains.append([index[parent], *range(first, len(places)), index[child]])
    return places, chains


def _neighbours(chains: Sequence[Sequence[int]]) -> tuple[Mapping[int, list[int]], Mapping[int, list[int]]]:
    """Return the places before and behind each place."""
    before, behind = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for chain in chains:
        for left, right in pairwise(chain):
            behind[left].append(right)
            before[right].append(left)
    return before, behind


def _ordered(places: Sequence[_Place], chains: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the places of each layer from top to bottom, in an order with few crossings."""
    layers = defaultdict[int, list[int]](list)
    for index, place in enumerate(places):
        layers[place.layer].append(index)
    order = [layers[number] for number in sorted(layers)]
    before, behind = _neighbours(chains)
    for sweep in range(_SWEEPS):
        sides = (order, before) if sweep % 2 == 0 else (order[::-1], behind)
        position = {index: at for layer in order for at, index in enumerate(layer)}
        for layer in sides[0]:
            wanted = {
                index: fmean(position[other] for other in sides[1][index]) if sides[1][index] else position[index]
                for index in layer
            }
            layer.sort(key=wanted.__getitem__)
            position |= {index: at for at, index in enumerate(layer)}
    return order


def _align(order: Sequence[list[int]], places: Sequence[_Place], chains: Sequence[Sequence[int]]) -> None:
    """Set the heights: each place near the mean of its neighbours, in the order of its layer, without overlaps."""
    before, behind = _neighbours(chains)
    for layer in order:
        _spread([places[index] for index in layer], [0.0] * len(layer))
    for turn in range(_ALIGNMENTS):
        near = before if turn % 2 == 0 else behind
        for layer in order if turn % 2 == 0 else order[::-1]:
            wanted = [
                fmean(places[other].y for other in near[index]) if near[index] else places[index].y for index in layer
            ]
            _spread([places[index] for index in layer], wanted)


def _spread(layer: Sequence[_Place], wanted: Sequence[float]) -> None:
    """Place a layer at the wanted heights, moved apart as far as needed, and together back towards them."""
    if not layer:
        return
    layer[0].y = wanted[0]
    for above, place, height in zip(layer, layer[1:], wanted[1:], strict=False):
        place.y = max(height, above.y + (above.size + place.size) / 2 + _GAP_Y)
    shift = fmean(height - place.y for place, height in zip(layer, wanted, strict=True))
    for place in layer:
        place.y += shift


def _placed(node: DrawnNode, place: _Place, is_critical: bool) -> PlacedNode:
    title = node.name if len(node.name) <= _SHOWN else f"{node.name[: _SHOWN - 1]}…"
    return PlacedNode(node, _left(place), round(place.y - HEIGHT / 2), title, is_critical)


def _left(place: _Place) -> int:
    return _MARGIN + place.layer * (WIDTH + _GAP_X)


def _path(chain: Sequence[_Place]) -> str:
    """Draw an edge from the right side of its first place to the left side of its last one, around the others."""
    parts = [f"M{_left(chain[0]) + WIDTH} {round(chain[0].y)}"]
    for left, right in pairwise(chain):
        start, end = _left(left) + WIDTH, _left(right)
        middle = (start + end) // 2
        parts.append(f"C{middle} {round(left.y)} {middle} {round(right.y)} {end} {round(right.y)}")
        if right is not chain[-1]:
            parts.append(f"H{end + WIDTH}")
    return "".join(parts)
