"""Explanation of a workflow: one or two sentences on its state, and on the nodes that it waits for or that failed."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Row

from app.features.workflows.stored.undoing import Undoing, read_undoing
from app.features.workflows.stored.workflow_list import StoredWorkflow
from app.kernel.db import Database
from app.kernel.formats import numbered, rfc3339
from app.kernel.sql import statement
from schema.states import FINAL_OF_WORKFLOW, ExecutionStatus, NodeState, WorkflowStatus

MAX_NAMED = 3
MAX_WAITS_FOR = 10
_LONG = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))

RUNNING = statement(
    "workflows.running_nodes",
    """
    SELECT n.node, n.name, n.items, n.items_open, n.items_failed, e.status, e.attempt_count, e.max_attempts, e.run_at,
           a.error->>'type' AS error
      FROM workflow_nodes AS n
      LEFT JOIN executions AS e ON e.execution_id = n.execution_id
      LEFT JOIN attempts AS a ON a.execution_id = e.execution_id AND a.attempt_number = e.attempt_count
     WHERE n.workflow_id = :workflow_id AND n.item = 0 AND n.state IN ('RUNNING', 'EXPANDING')
     ORDER BY n.node, n.item LIMIT :limit
    """,
)
FAILED = statement(
    "workflows.failed_nodes",
    """
    SELECT n.name, n.state, n.reason, n.message, a.error->>'type' AS error
      FROM workflow_nodes AS n
      LEFT JOIN executions AS e ON e.execution_id = n.execution_id
      LEFT JOIN attempts AS a ON a.execution_id = e.execution_id AND a.attempt_number = e.attempt_count
     WHERE n.workflow_id = :workflow_id AND n.item = 0 AND n.state IN ('FAILED', 'CANCELLED')
     ORDER BY n.node, n.item LIMIT :limit
    """,
)
# The first node that waits for a running node.
BEHIND = statement(
    "workflows.waiting_behind",
    """
    SELECT n.name FROM workflow_edges AS e
      JOIN workflow_nodes AS n ON n.workflow_id = e.workflow_id AND n.node = e.child AND n.item = 0
     WHERE e.workflow_id = :workflow_id AND e.parent = :node AND n.state = 'WAITING'
     ORDER BY e.child LIMIT 1
    """,
)
_UNDOES = frozenset({WorkflowStatus.COMPENSATING, WorkflowStatus.COMPENSATED, WorkflowStatus.COMPENSATION_FAILED})
NOW = statement("workflows.now", "SELECT now() AS now")


class WorkflowFacts(NamedTuple):
    """Facts of an explanation: the first running and failed nodes, and a node that waits for the first running node.

    `undoing` is of a workflow that compensates or did.
    """

    workflow: StoredWorkflow
    now: datetime
    running: Sequence[Row[Any]]
    failed: Sequence[Row[Any]]
    behind: str | None
    undoing: Undoing | None = None


def explain_workflow(database: Database, workflow: StoredWorkflow) -> str:
    """Explain the state of a workflow."""
    key = {"workflow_id": workflow.workflow_id}
    named = key | {"limit": MAX_NAMED}
    running = [] if workflow.status in FINAL_OF_WORKFLOW else database.fetch(RUNNING, named)
    failed = database.fetch(FAILED, named) if workflow.failed or workflow.cancelled else []
    behind = database.fetch(BEHIND, key | {"node": running[0].node}) if running else []
    undoing = read_undoing(database, workflow.workflow_id) if workflow.status in _UNDOES else None
    (row,) = database.fetch(NOW)
    return sentence(WorkflowFacts(workflow, row.now, running, failed, behind[0].name if behind else None, undoing))


def waits_for(database: Database, workflow_id: str) -> list[str]:
    """Return the names of the first running nodes."""
    rows = database.fetch(RUNNING, {"workflow_id": workflow_id, "limit": MAX_WAITS_FOR})
    return [row.name for row in rows]


def sentence(facts: WorkflowFacts) -> str:
    """Word the facts."""
    workflow = facts.workflow
    through, nodes = workflow.nodes - workflow.open_nodes, workflow.nodes
    lasted = duration((workflow.ended_at or facts.now) - workflow.created_at)
    since = "after" if workflow.ended_at is not None else "for"
    parts = [f"{workflow.status} {since} {lasted}: {through:,} of {numbered(nodes, 'node')} done{_skipped(workflow)}."]
    if facts.failed:
        more = workflow.failed + workflow.cancelled - len(facts.failed)
        named = [
            f"{row.name} {'failed' if row.state == 'FAILED' else 'was cancelled'}{_why(row)}" for row in facts.failed
        ]
        parts.append("; ".join([*named, *([f"{numbered(more, 'more node')} failed"] if more > 0 else [])]) + ".")
    if facts.undoing is not None:
        parts.append(_undone(facts.undoing))
    if workflow.status is WorkflowStatus.PAUSED:
        parts.append("No further node starts until the workflow is resumed.")
    if facts.running:
        first, more = facts.running[0], len(facts.running) - 1
        waits = f"{facts.behind} waits for" if facts.behind is not None else "It waits for"
        others = "".join(f", {row.name}" for row in facts.running[1:]) if more else ""
        parts.append(f"{waits} {first.name}, which {_doing(first)}{f'; also running{others}' if others else ''}.")
    return " ".join(parts)


def _undone(found: Undoing) -> str:
    text = f"{found.undone:,} of {numbered(found.undoable, 'job', 'are undone')}"
    if found.current is None:
        return f"{text}."
    if found.state == NodeState.RUNNING:
        return f"{text}; the compensation of {found.current} runs."
    why = "" if found.message is None else f" ({found.reason}: {found.message.removesuffix('.')})"
    return f"{text}; the compensation of {found.current} is {found.state}{why}."


def duration(passed: timedelta) -> str:
    """Write a duration in the largest unit that it contains twice, or in seconds."""
    seconds = max(0, round(passed.total_seconds()))
    size, unit = next(((size, unit) for size, unit in _LONG if seconds >= 2 * size), (1, "s"))
    return f"{seconds // size} {unit}"


def _skipped(workflow: StoredWorkflow) -> str:
    return f", {workflow.skipped:,} of them skipped" if workflow.skipped else ""


def _why(row: Row[Any]) -> str:
    if row.message is not None:
        return f" ({row.reason}: {row.message.removesuffix('.')})"
    why = row.error if row.reason in {None, row.state} else row.reason
    return "" if why is None else f" ({why})"


def _doing(row: Row[Any]) -> str:
    if row.items is not None:
        failed = f", {row.items_failed:,} failed" if row.items_failed else ""
        return f"runs {numbered(row.items, 'item')}: {row.items_open or 0:,} running{failed}"
    match row.status:
        case ExecutionStatus.RETRYING:
            tried = f"failed {row.attempt_count} of {numbered(row.max_attempts, 'attempt')}"
            why = f" ({row.error})" if row.error else ""
            return f"{tried}{why} and is tried again at {rfc3339(row.run_at, 'seconds')}"
        case ExecutionStatus.RUNNING:
            return f"runs attempt {row.attempt_count} of {row.max_attempts}"
        case ExecutionStatus.PENDING:
            return f"is due at {rfc3339(row.run_at, 'seconds')}"
        case ExecutionStatus.QUEUED:
            return "waits in its queue (GET /executions/ID/explain has the reason)"
    return "has just ended"
