"""Drawings of a workflow in Mermaid and in DOT. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from app.kernel.db.rows import RowValue
from app.kernel.formats import numbered
from schema.states import NodeState


class NodeKind(StrEnum):
    """Kind of a node: one job, a job for each item of a list, several jobs, or no job."""

    JOB = "job"
    FOR_EACH = "for_each"
    GROUP = "group"
    GATE = "gate"


# Fill colours by state; nodes in other states have none.
_COLOURS = {
    NodeState.RUNNING: "#cfe2ff",
    NodeState.SUCCEEDED: "#d1e7dd",
    NodeState.FAILED: "#f8d7da",
    NodeState.CANCELLED: "#f8d7da",
    NodeState.SKIPPED: "#e9ecef",
}
# Brackets of Mermaid, and shapes of Graphviz.
_BRACKETS = {
    NodeKind.JOB: ("[", "]"),
    NodeKind.FOR_EACH: ("[[", "]]"),
    NodeKind.GROUP: ("[[", "]]"),
    NodeKind.GATE: ("{{", "}}"),
}
_SHAPES = {NodeKind.JOB: "box", NodeKind.FOR_EACH: "box3d", NodeKind.GROUP: "box3d", NodeKind.GATE: "diamond"}


@dataclass(frozen=True, slots=True)
class DrawnNode(RowValue):
    """A node of a drawing; its names have letters, digits, hyphens and underscores only."""

    number: int
    name: str
    endpoint: str | None
    kind: NodeKind
    state: NodeState
    items: int | None
    compensation: NodeState | None = None

    def label(self, line_break: str) -> str:
        """Return the name, the endpoint if it has another name, and the state."""
        name = self.name if self.items is None else f"{self.name} ({numbered(self.items, 'item')})"
        lines = [name, self.endpoint if self.endpoint != self.name else None, self.state]
        lines += [] if self.compensation is None else [f"compensation {self.compensation}"]
        return line_break.join(line for line in lines if line is not None)


class Drawing(NamedTuple):
    """Nodes and edges (parent, child) of a workflow."""

    nodes: Sequence[DrawnNode]
    edges: Sequence[tuple[int, int]]

    def mermaid(self) -> str:
        """Return a flowchart of Mermaid."""
        return "\n".join(["flowchart TD", *self._mermaid()]) + "\n"

    def _mermaid(self) -> Iterator[str]:
        for node in self.nodes:
            opening, closing = _BRACKETS[node.kind]
            style = f":::{node.state.lower()}" if node.state in _COLOURS else ""
            yield f'  n{node.number}{opening}"{node.label("<br>")}"{closing}{style}'
        yield from (f"  n{parent} --> n{child}" for parent, child in self.edges)
        used = {node.state for node in self.nodes}
        yield from (f"  classDef {state.lower()} fill:{fill}" for state, fill in _COLOURS.items() if state in used)

    def dot(self) -> str:
        """Return a directed graph of Graphviz."""
        return "\n".join(["digraph workflow {", *self._dot(), "}"]) + "\n"

    def _dot(self) -> Iterator[str]:
        for node in self.nodes:
            fill = f', style=filled, fillcolor="{_COLOURS[node.state]}"' if node.state in _COLOURS else ""
            label = node.label("\\n")
            yield f'  n{node.number} [label="{label}", shape={_SHAPES[node.kind]}{fill}];'
        yield from (f"  n{parent} -> n{child};" for parent, child in self.edges)
