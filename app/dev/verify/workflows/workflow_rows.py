"""Rows of the workflows of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from app.kernel.db.rows import RowValue
from app.queue.executions.node_key import NodeKey
from schema.states import NodeState, WorkflowStatus


@dataclass(frozen=True, slots=True)
class WorkflowRow(RowValue):
    """A row of `workflows`."""

    workflow_id: str
    status: WorkflowStatus
    open_nodes: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    skipped: int


@dataclass(frozen=True, slots=True)
class NodeRow(RowValue):
    """A row of `workflow_nodes`: a node, or an item of a node."""

    workflow_id: str
    node: int
    item: int
    state: NodeState
    run: int
    job_id: str | None
    execution_id: str | None
    items_made: int | None
    reported_to: int | None
    ended_at: datetime | None

    @property
    def place(self) -> NodeKey:
        return NodeKey(self.workflow_id, self.node, self.item, self.run)


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """A job of a node, by the place in its key."""

    job_id: str
    place: NodeKey
    created_at: datetime


class Edge(NamedTuple):
    """A row of `workflow_edges`."""

    workflow_id: str
    parent: int
    child: int


@dataclass(frozen=True, slots=True)
class WorkflowsOfRun:
    """All rows, and the ids of accepted workflows by their keys."""

    accepted: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[WorkflowRow, ...] = ()
    nodes: tuple[NodeRow, ...] = ()
    edges: tuple[Edge, ...] = ()
    jobs: tuple[PlacedJob, ...] = ()
