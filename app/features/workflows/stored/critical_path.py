"""Critical path of a workflow: the chain of nodes that decided its end, each with its parent that ended last."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter

from app.features.workflows.stored.node_list import EDGES
from app.kernel.db import Database
from app.kernel.db.rows import RowValue
from app.kernel.sql import statement
from schema.states import NodeState

# Without a failure, an execution has no row of its first attempt.
TIMES = statement(
    "workflows.node_times",
    """
    SELECT n.node AS number, n.name, n.state, n.ready_at, n.ended_at,
           COALESCE(a.started_at, e.started_at, CASE WHEN n.execution_id IS NULL THEN n.started_at END) AS started_at,
           now() AS now
      FROM workflow_nodes AS n
      LEFT JOIN executions AS e ON e.execution_id = n.execution_id
      LEFT JOIN attempts AS a ON a.execution_id = n.execution_id AND a.attempt_number = 1
     WHERE n.workflow_id = :workflow_id AND n.item = 0 AND n.ready_at IS NOT NULL
     ORDER BY n.node, n.item
    """,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedNode(RowValue):
    """A node that became ready: `started_at` is the start of its first attempt, None before it; `now` the read."""

    number: int
    name: str
    state: NodeState
    ready_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    now: datetime

    @property
    def waited_ms(self) -> int:
        """Return the time from ready to the first attempt."""
        return _milliseconds((self.started_at or self.ended_at or self.now) - self.ready_at)

    @property
    def ran_ms(self) -> int:
        """Return the time from the first attempt to the end, retries included; 0 before the first attempt."""
        end = self.ended_at or self.now
        return _milliseconds(end - (self.started_at or end))


def critical_path_of(database: Database, workflow_id: str) -> list[TimedNode]:
    """Read the critical path of a workflow; empty if no node was ready yet."""
    edges = database.fetch(EDGES, {"workflow_id": workflow_id})
    return critical_path(timed_nodes(database, workflow_id), [(row.parent, row.child) for row in edges])


def timed_nodes(database: Database, workflow_id: str) -> list[TimedNode]:
    """Read the nodes of a workflow that became ready, in topological order."""
    return [TimedNode.from_row(row) for row in database.fetch(TIMES, {"workflow_id": workflow_id})]


def critical_path(nodes: Sequence[TimedNode], edges: Iterable[tuple[int, int]]) -> list[TimedNode]:
    """Return the path, first node first.

    It ends at the node that ended last, or while nodes are open at the open node that has been ready for longest.
    """
    timed: Mapping[int, TimedNode] = {node.number: node for node in nodes}
    parents: dict[int, list[TimedNode]] = {}
    for parent, child in edges:
        if parent in timed:
            parents.setdefault(child, []).append(timed[parent])
    is_open = [node for node in nodes if node.ended_at is None]
    last = min(is_open, key=attrgetter("ready_at", "number"), default=None) or max(nodes, key=_end, default=None)
    path = [] if last is None else [last]
    while path and path[-1].number in parents:
        path.append(max(parents[path[-1].number], key=_end))
    return path[::-1]


def _end(node: TimedNode) -> tuple[datetime, int]:
    return node.ended_at or node.now, node.number


def _milliseconds(passed: timedelta) -> int:
    return max(0, round(passed.total_seconds() * 1000))
