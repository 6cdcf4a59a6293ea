"""Nodes of workflows with manually retried executions: they run again, and the effects of their ends are taken back.

A retry marks its nodes only; a step of their workflow (app.features.workflows.steps.reopening) takes back the reports
of the nodes. An end from before the retry settles nothing.

A retry locks executions before workflows, and a step that cancels executions locks its workflow first. A deadlock is
possible only with a retry of an execution that has not ended, and the database ends it: one of both runs again.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from app.kernel.errors import ConflictError, TaskExecutorError
from app.kernel.sql import statement
from app.queue.executions.node_key import NodeKey
from schema.states import WorkflowReason, WorkflowStatus

_UNDONE = frozenset({WorkflowStatus.COMPENSATING, WorkflowStatus.COMPENSATED, WorkflowStatus.COMPENSATION_FAILED})
# A step that starts a compensation, a retry of the workflow, and its deletion change the revision, too: they wait or
# are overtaken, or the next statement sees their changes.
TOUCH = statement(
    "workflows.touch_for_retry",
    """
    WITH found AS MATERIALIZED (
      SELECT workflow_id FROM workflows
       WHERE workflow_id = ANY (CAST(:workflows AS TEXT[])) AND revision >= 0 ORDER BY workflow_id FOR UPDATE)
    UPDATE workflows AS w SET revision = w.revision + 1 FROM found
     WHERE w.workflow_id = found.workflow_id AND w.revision >= 0
    """,
)
# A node whose end is not counted yet has nothing to take back.
MARK = statement(
    "workflow_nodes.mark_retried",
    """
    UPDATE workflow_nodes AS n
       SET state = 'RUNNING', reason = NULL, message = NULL, ended_at = NULL, retried_end = u.ended_at,
           is_reopened = n.is_reopened OR n.state <> 'RUNNING' AND COALESCE(n.reported_to, 1) > 0, reported_to = NULL
      FROM unnest(CAST(:executions AS TEXT[]), CAST(:instants AS TIMESTAMPTZ[])) AS u (execution_id, ended_at)
     WHERE n.execution_id = ANY (CAST(:executions AS TEXT[])) AND n.execution_id = u.execution_id
       AND COALESCE(n.state IN ('RUNNING', 'FAILED', 'CANCELLED'), false)
       AND n.run = (SELECT p.run FROM workflow_nodes AS p
                     WHERE p.workflow_id = n.workflow_id AND p.node = n.node AND p.item = 0)
       AND EXISTS (SELECT 1 FROM workflows AS w
                    WHERE w.workflow_id = n.workflow_id AND w.revision >= 0
                      AND (n.item >= 0 AND {may_go_on} OR n.item < 0 AND COALESCE(w.status <> 'COMPENSATED', false)))
    RETURNING n.execution_id
    """,
    may_go_on="""w.status NOT IN ('COMPENSATING', 'COMPENSATED', 'COMPENSATION_FAILED')
                      AND COALESCE(w.reason <> 'CANCELLED' AND (w.reason <> 'DEADLINE' OR w.ended_at IS NOT NULL), true)
                      """,
)
WHY = statement(
    "workflow_nodes.why_not_retried",
    """
    SELECT u.execution_id, w.workflow_id, w.status, w.reason, p.name, p.run
      FROM unnest(CAST(:executions AS TEXT[]), CAST(:workflows AS TEXT[]), CAST(:nodes AS BIGINT[]))
           AS u (execution_id, workflow_id, node)
      JOIN workflows AS w ON w.workflow_id = u.workflow_id
      JOIN workflow_nodes AS p ON p.workflow_id = u.workflow_id AND p.node = u.node AND p.item = 0
     WHERE w.workflow_id = ANY (CAST(:workflows AS TEXT[])) AND w.revision >= 0
    """,
)


def mark_retried(connection: Connection, locked: Sequence[Row[Any]]) -> dict[str, TaskExecutorError]:
    """Let the nodes of locked, ended executions run again; returns an error for each execution that cannot.

    An execution runs alone if its workflow was deleted. A row has `execution_id`, `idempotency_key` and `completed_at`.
    """
    keys = {row.execution_id: key for row in locked if (key := NodeKey.parse(row.idempotency_key)) is not None}
    if not keys:
        return {}
    connection.execute(TOUCH, {"workflows": sorted({key.workflow_id for key in keys.values()})})
    ends = {row.execution_id: row.completed_at for row in locked if row.execution_id in keys}
    params = {"executions": [*ends], "instants": [*ends.values()]}
    marked = set(connection.execute(MARK, params).scalars())
    return dict(_refusals(connection, {each: key for each, key in keys.items() if each not in marked}))


def _refusals(connection: Connection, keys: dict[str, NodeKey]) -> Iterator[tuple[str, TaskExecutorError]]:
    if keys:
        params = {
            "executions": [*keys],
            "workflows": [key.workflow_id for key in keys.values()],
            "nodes": [key.node for key in keys.values()],
        }
        for row in connection.execute(WHY, params):
            yield row.execution_id, ConflictError(_why(row, keys[row.execution_id]))


def _why(row: Row[Any], key: NodeKey) -> str:
    place = f"the node {row.name!r} of the workflow {row.workflow_id!r}"
    if row.run != key.run:
        return f"The execution {row.execution_id!r} is of run {key.run} of {place}, which is at run {row.run}."
    status = WorkflowStatus(row.status)
    if status in _UNDONE:
        return f"The execution {row.execution_id!r} is of {place}, which is {status}. Create a new workflow instead."
    if row.reason == WorkflowReason.DEADLINE:
        return f"The deadline of the workflow {row.workflow_id!r} has passed, and it stops. Retry after its end."
    return f"The execution {row.execution_id!r} is of {place}, which was cancelled. Retry the workflow instead."
