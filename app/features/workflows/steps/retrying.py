"""Retry of a workflow from nodes: these nodes and all nodes behind them run again, each with a new job.

It is one transaction of the size of the graph, as the creation is. Items of earlier runs stay, and are replaced when
their node starts again. A step may change the workflow at the same moment: the row lock orders both, and without it
the revision decides.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, TextClause

from app.features.workflows.rules.retry_plan import (
    NodeAgain,
    PlannedNode,
    RetryPlan,
    RetryRequest,
    StoredGraph,
    plan_retry,
)
from app.features.workflows.steps import continuation
from app.features.workflows.steps.step import StepOvertakenError
from app.features.workflows.stored.node_list import EDGES
from app.features.workflows.stored.node_rows import is_marked
from app.features.workflows.stored.status_changes import RETRIED, StatusChange, record_event, recorded
from app.features.workflows.stored.workflow_creation import NODES_AT_ONCE
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.errors import ConflictError, UnavailableError, WorkflowNotFoundError
from app.kernel.sql import statement
from schema.states import FINAL_OF_NODE, WorkflowStatus

MAX_TRIES = 20
_ONLY = "only an ended or paused workflow can be retried."
_REFUSALS = {
    WorkflowStatus.RUNNING: f"{_ONLY} Pause it, or wait for its end.",
    WorkflowStatus.STOPPING: f"{_ONLY} Wait for its end.",
    WorkflowStatus.COMPENSATING: "its nodes are being undone. Create it anew.",
    WorkflowStatus.COMPENSATED: "its nodes were undone. Create it anew.",
    WorkflowStatus.COMPENSATION_FAILED: "its nodes were undone. Create it anew.",
}
"""Reasons and remedies by the statuses of workflows that no request can retry."""

# A workflow that is being deleted has a negative revision.
_WORKFLOW = """
    SELECT w.workflow_id, w.status, w.revision, {is_marked} AS is_marked
      FROM workflows AS w WHERE w.workflow_id = :workflow_id AND w.revision >= 0"""
FIND = statement("workflows.find_for_retry", _WORKFLOW, is_marked=is_marked("w"))
LOCK = statement(
    "workflows.lock_for_retry", _WORKFLOW + " ORDER BY w.workflow_id LIMIT 1 FOR UPDATE", is_marked=is_marked("w")
)
NODES = statement(
    "workflow_nodes.read_for_retry",
    """
    SELECT node, name, state, reason, run, reported_to, execution_id, definition->>'run_if' AS run_if,
           definition->>'on_failure' AS on_failure
      FROM workflow_nodes WHERE workflow_id = :workflow_id AND item = 0 ORDER BY node, item
    """,
)
AGAIN = statement(
    "workflow_nodes.run_again",
    """
    UPDATE workflow_nodes AS n
       SET state = u.state, reason = u.reason, message = NULL, run = u.run, job_id = NULL, execution_id = NULL,
           open_parents = u.open_parents, failed_parents = u.failed_parents,
           items = NULL, items_made = NULL, items_open = NULL, items_failed = NULL,
           ready_at = CASE WHEN u.state = 'READY' THEN now() END, started_at = NULL,
           ended_at = CASE WHEN u.state = 'SKIPPED' THEN now() END,
           reported_to = CASE WHEN u.state = 'SKIPPED' THEN 0 END
      FROM unnest(CAST(:nodes AS BIGINT[]), CAST(:befores AS TEXT[]), CAST(:runs_before AS BIGINT[]),
                  CAST(:states AS TEXT[]), CAST(:reasons AS TEXT[]), CAST(:runs AS BIGINT[]),
                  CAST(:open_parents AS BIGINT[]), CAST(:failed_parents AS BIGINT[]))
           AS u (node, before, run_before, state, reason, run, open_parents, failed_parents)
     WHERE n.workflow_id = :workflow_id AND n.node = ANY (CAST(:nodes AS BIGINT[])) AND n.item = 0
       AND n.node = u.node AND n.state = u.before AND n.run = u.run_before
    RETURNING n.node
    """,
)
# Workflows of an earlier release lack `deadline_ms`.
NEW_DEADLINE = "now() + COALESCE(deadline_ms * INTERVAL '1 millisecond', deadline_at - created_at)"
# A node that runs again after a manual retry of its execution comes first.
RESTART = statement(
    "workflows.restart",
    """
    UPDATE workflows
       SET status = :status, reason = NULL, compensates = false, cancelling = NULL,
           ended_at = NULL, revision = revision + 1,
           open_nodes = open_nodes + CAST(:opened AS BIGINT), running = running - CAST(:uncounted AS BIGINT),
           succeeded = succeeded - CAST(:succeeded AS BIGINT), failed = failed - CAST(:failed AS BIGINT),
           cancelled = cancelled - CAST(:cancelled AS BIGINT), skipped = skipped - CAST(:skipped AS BIGINT),
           deadline_at = {deadline}
     WHERE workflow_id = :workflow_id AND revision = :revision AND NOT {is_marked}
    RETURNING revision
    """,
    deadline=NEW_DEADLINE,
    is_marked=is_marked("workflows"),
)


def retry(database: Database, workflow_id: str, wanted: RetryRequest, *, actor: str | None) -> RetryPlan:
    """Let nodes run again; the workflow is RUNNING afterwards, and a paused workflow stays PAUSED.

    Raises WorkflowNotFoundError, the errors of the plan, or ConflictError for a workflow that is not over or paused.
    """
    event_id, made = ids.event_id(), list[RetryPlan]()

    def body(connection: Connection) -> RetryPlan:
        if made and recorded(connection, event_id):
            return made[-1]  # an earlier run of this transaction was committed; its answer was lost
        row, plan = _plan(connection, LOCK, workflow_id, wanted)
        made.append(plan)
        _restart(connection, row, plan, event_id, actor)
        return plan

    for _ in range(MAX_TRIES):
        try:
            return database.transact(body)
        except StepOvertakenError:
            continue
    raise UnavailableError("The workflow is changing too often. Retry later.")


def preview(database: Database, workflow_id: str, wanted: RetryRequest) -> RetryPlan:
    """Plan a retry without changing anything; raises the errors of the retry."""
    return database.transact(lambda connection: _plan(connection, FIND, workflow_id, wanted)[1])


def _plan(
    connection: Connection, find: TextClause, workflow_id: str, wanted: RetryRequest
) -> tuple[Row[Any], RetryPlan]:
    key = {"workflow_id": workflow_id}
    row = connection.execute(find, key).first()
    if row is None:
        raise WorkflowNotFoundError.of(workflow_id)
    status = WorkflowStatus(row.status)
    if status in _REFUSALS:
        raise ConflictError(f"The workflow {workflow_id!r} is {status}: {_REFUSALS[status]}")
    if row.is_marked:
        raise ConflictError(f"An execution of the workflow {workflow_id!r} was retried, and runs again.")
    return row, plan_retry(read_graph(connection, workflow_id), status, wanted)


def read_graph(connection: Connection, workflow_id: str) -> StoredGraph:
    """Read the nodes and edges of a workflow."""
    key = {"workflow_id": workflow_id}
    nodes = [PlannedNode.from_row(each) for each in connection.execute(NODES, key)]
    return StoredGraph.of(nodes, ((edge.parent, edge.child) for edge in connection.execute(EDGES, key)))


def _restart(connection: Connection, row: Row[Any], plan: RetryPlan, event_id: str, actor: str | None) -> None:
    reset(connection, row.workflow_id, plan.again)
    params = {"workflow_id": row.workflow_id, "revision": row.revision, "status": plan.status.value}
    if not connection.execute(RESTART, params | _counts(plan.again)).all():
        raise StepOvertakenError
    continuation.begin_attempt(connection, row.workflow_id, actor=actor)
    change = StatusChange(row.workflow_id, WorkflowStatus(row.status), plan.status, RETRIED)
    record_event(connection, event_id, change, actor=actor)


def reset(connection: Connection, workflow_id: str, again: Sequence[NodeAgain]) -> None:
    """Let nodes start again; raises StepOvertakenError if a node has changed since it was read."""
    for start in range(0, len(again), NODES_AT_ONCE):
        _reset(connection, workflow_id, again[start : start + NODES_AT_ONCE])


def _reset(connection: Connection, workflow_id: str, again: Sequence[NodeAgain]) -> None:
    params = {
        "workflow_id": workflow_id,
        "nodes": [each.before.node for each in again],
        "befores": [each.before.state.value for each in again],
        "runs_before": [each.before.run for each in again],
        "states": [each.start.state.value for each in again],
        "reasons": [each.start.reason and each.start.reason.value for each in again],
        "runs": [each.run for each in again],
        "open_parents": [each.open_parents for each in again],
        "failed_parents": [each.failed_parents for each in again],
    }
    if len(connection.execute(AGAIN, params).all()) < len(again):
        raise StepOvertakenError


def _counts(again: Sequence[NodeAgain]) -> dict[str, int]:
    """Return the numbers of counted nodes, by their states, and of ended executions that are not counted yet."""
    counted = Counter(each.before.state for each in again if each.before.is_counted)
    uncounted = sum(each.before.reported_to == 0 and each.before.execution_id is not None for each in again)
    return {
        "opened": counted.total(),
        "uncounted": uncounted,
        **{state.value.lower(): counted[state] for state in FINAL_OF_NODE},
    }
