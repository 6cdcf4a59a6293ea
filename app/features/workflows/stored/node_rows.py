"""Rows of nodes as a step of a workflow reads and writes them.

A step writes values that it computed from the rows it read. The revision of the workflow makes this safe: two steps
that read the same rows cannot both commit. Ends of executions are written at any time (settling), but only to
RUNNING nodes with an execution, which no step writes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Row

from app.features.workflows.rules.model import RUN_IFS, STATES, NodeReason, NodeStart, decide
from app.kernel.db.hot import run_in
from app.kernel.formats import array_literal
from app.kernel.sql import hot_statement
from schema.states import NodeState, WorkflowReason

COLUMNS = """n.node, n.name, n.endpoint, n.definition, n.state, n.run, n.open_parents, n.failed_parents, n.items,
             n.items_made, n.items_open, n.items_failed"""
_ENDED = "('SUCCEEDED', 'FAILED', 'CANCELLED', 'SKIPPED')"

_COUNTS = ("items", "items_made", "items_open", "items_failed")


def is_current(item: str) -> str:
    """Return the SQL condition that an item is of the current run of its node: a retry leaves earlier items."""
    return f"""{item}.run = (SELECT p.run FROM workflow_nodes AS p WHERE p.workflow_id = {item}.workflow_id
                                               AND p.node = {item}.node AND p.item = 0)"""  # noqa: S608 - a part of a statement, composed at import


def is_marked(workflow: str) -> str:
    """Return the SQL condition that a workflow has nodes with reports to take back."""
    return f"EXISTS (SELECT 1 FROM workflow_nodes AS r WHERE r.workflow_id = {workflow}.workflow_id AND r.is_reopened)"  # noqa: S608 - a part of a statement, composed at import


def has_ready(workflow: str) -> str:
    """Return the SQL condition that a workflow has nodes that wait for room, or may start further items."""
    return f"""EXISTS (SELECT 1 FROM workflow_nodes AS r WHERE r.workflow_id = {workflow}.workflow_id
                                                       AND r.state IN ('READY', 'EXPANDING'))"""  # noqa: S608 - a part of a statement, composed at import


# A node that ends has to report to its children, and an item to its node.
WRITE = hot_statement(
    "workflow_nodes.write",
    """
    UPDATE workflow_nodes AS n
       SET state = u.state, reason = u.reason, message = u.message, job_id = u.job_id, execution_id = u.execution_id,
           open_parents = u.open_parents, failed_parents = u.failed_parents,
           items = u.items, items_made = u.items_made, items_open = u.items_open, items_failed = u.items_failed,
           ready_at = CASE WHEN u.state = 'READY' OR n.state = 'WAITING' AND u.state NOT IN ('WAITING', 'SKIPPED')
                           THEN now() ELSE n.ready_at END,
           started_at = CASE WHEN u.state IN ('EXPANDING', 'RUNNING') THEN COALESCE(n.started_at, now())
                             ELSE n.started_at END,
           ended_at = CASE WHEN u.state IN {ended} THEN now() END,
           reported_to = CASE WHEN u.state IN {ended} THEN 0 END
      FROM unnest(CAST(:nodes AS BIGINT[]), CAST(:befores AS TEXT[]), CAST(:states AS TEXT[]), CAST(:reasons AS TEXT[]),
                  CAST(:messages AS TEXT[]), CAST(:jobs AS TEXT[]), CAST(:executions AS TEXT[]),
                  CAST(:open_parents AS BIGINT[]), CAST(:failed_parents AS BIGINT[]), CAST(:items AS BIGINT[]),
                  CAST(:items_made AS BIGINT[]), CAST(:items_open AS BIGINT[]), CAST(:items_failed AS BIGINT[]))
           AS u (node, before, state, reason, message, job_id, execution_id, open_parents, failed_parents, items,
                 items_made, items_open, items_failed)
     WHERE n.workflow_id = :workflow_id AND n.node = ANY (CAST(:nodes AS BIGINT[])) AND n.item = 0
       AND n.node = u.node AND n.state = u.before
    """,
    ended=_ENDED,
)
READ = hot_statement(
    "workflow_nodes.read",
    """
    SELECT {columns} FROM workflow_nodes AS n
     WHERE n.workflow_id = :workflow_id AND n.node = ANY (CAST(:nodes AS BIGINT[])) AND n.item = 0
     ORDER BY n.node
    """,
    columns=COLUMNS,
)


@dataclass(slots=True, kw_only=True)
class WorkflowNode:
    """A node that is WAITING, READY, EXPANDING, or RUNNING with items; a step changes it and writes it once.

    Attributes:
        before: State that was read.
        items: Items in all, of which `items_made` started, `items_open` have not ended and `items_failed` failed.
    """

    node: int
    name: str
    endpoint: str | None
    definition: Mapping[str, Any]
    run: int
    before: NodeState
    state: NodeState
    open_parents: int
    failed_parents: int
    items: int
    items_made: int
    items_open: int
    items_failed: int
    reason: NodeReason | None = None
    message: str | None = None
    job_id: str | None = None
    execution_id: str | None = None

    @classmethod
    def of_row(cls, row: Row[Any]) -> "WorkflowNode":
        """Build from a row with COLUMNS."""
        node, name, endpoint, definition, state, run, open_parents, failed_parents, *counts = row
        items, items_made, items_open, items_failed = (each or 0 for each in counts)
        return cls(
            node=node,
            name=name,
            endpoint=endpoint,
            definition=definition,
            run=run,
            before=STATES[state],
            state=STATES[state],
            open_parents=open_parents,
            failed_parents=failed_parents,
            items=items,
            items_made=items_made,
            items_open=items_open,
            items_failed=items_failed,
        )

    @property
    def has_items(self) -> bool:
        return "for_each" in self.definition or "group" in self.definition

    def decision(self, stopping: WorkflowReason | None) -> NodeStart:
        """Decide whether the node starts, or starts further items."""
        return decide(RUN_IFS[self.definition["run_if"]], self.failed_parents, stopping)

    def end(self, state: NodeState, reason: NodeReason | None = None, message: str | None = None) -> None:
        """End the node without an execution."""
        self.state, self.reason, self.message = state, reason, message


def sparse_array(values: Iterable[object]) -> str:
    """Write values as the text of an SQL array, empty without a value: `unnest` fills shorter arrays with NULLs."""
    given = [*values]
    return "{}" if given.count(None) == len(given) else array_literal(given)


def read(connection: Connection, workflow_id: str, nodes: Collection[int]) -> list[WorkflowNode]:
    """Read nodes by their numbers."""
    if not nodes:
        return []
    return [
        WorkflowNode.of_row(row)
        for row in run_in(connection, READ, {"workflow_id": workflow_id, "nodes": array_literal(sorted(nodes))})
    ]


def write(connection: Connection, workflow_id: str, nodes: Sequence[WorkflowNode]) -> None:
    """Write nodes in the order of their numbers."""
    if not nodes:
        return
    ordered = sorted(nodes, key=attrgetter("node"))
    params = {
        "workflow_id": workflow_id,
        "nodes": array_literal(node.node for node in ordered),
        "befores": array_literal(str(node.before) for node in ordered),
        "states": array_literal(str(node.state) for node in ordered),
        "reasons": sparse_array(node.reason and str(node.reason) for node in ordered),
        "messages": sparse_array(node.message for node in ordered),
        "jobs": sparse_array(node.job_id for node in ordered),
        "executions": sparse_array(node.execution_id for node in ordered),
        "open_parents": array_literal(node.open_parents for node in ordered),
        "failed_parents": array_literal(node.failed_parents for node in ordered),
    }
    counted = [node if node.has_items else None for node in ordered]
    for name in _COUNTS:
        params[name] = sparse_array(node and getattr(node, name) for node in counted)
    run_in(connection, WRITE, params, joins=len(ordered))
