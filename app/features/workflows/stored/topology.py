"""Topology of a workflow: its first and last nodes, and all nodes that a node depends on or that depend on it. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from app.features.workflows.rules.graph_formats import Drawing
from app.kernel.errors import WorkflowNodeNotFoundError


class Topology(NamedTuple):
    """Names of nodes, each after its parents; dependencies and dependents belong to one node, or are None."""

    roots: Sequence[str]
    leaves: Sequence[str]
    dependencies: Sequence[str] | None = None
    dependents: Sequence[str] | None = None


def topology_of(graph: Drawing, of: str | None = None) -> Topology:
    """Return the topology of a graph; raises WorkflowNodeNotFoundError if `of` is no node of it."""
    names = {node.number: node.name for node in graph.nodes}
    parents, children = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for parent, child in graph.edges:
        children[parent].append(child)
        parents[child].append(parent)

    def named(numbers: Iterable[int]) -> list[str]:
        return [names[number] for number in sorted(numbers)]

    roots, leaves = named(names.keys() - parents.keys()), named(names.keys() - children.keys())
    if of is None:
        return Topology(roots, leaves)
    start = next((number for number, name in names.items() if name == of), None)
    if start is None:
        raise WorkflowNodeNotFoundError.of(of)
    return Topology(roots, leaves, named(_reached(start, parents)), named(_reached(start, children)))


def _reached(start: int, neighbours: Mapping[int, Sequence[int]]) -> set[int]:
    """Return all nodes that can be reached from a node, without the node."""
    found, left = set[int](), [start]
    while left:
        for number in neighbours.get(left.pop(), ()):
            if number not in found:
                found.add(number)
                left.append(number)
    return found
