"""Take-back of the reports of nodes whose executions were retried manually; an ended workflow opens again.

The retry only marks its nodes (app.queue.executions.node_retry); a step takes back the reports of the marked nodes.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row

from app.features.workflows.rules.model import STEP
from app.features.workflows.rules.take_back_plan import TakeBackPlan, plan_take_back
from app.features.workflows.steps import continuation, item_rules, retrying
from app.features.workflows.steps.step import StepOvertakenError, WorkflowStep
from app.features.workflows.stored import node_rows
from app.features.workflows.stored.node_rows import WorkflowNode
from app.features.workflows.stored.status_changes import RETRIED, StatusChange, record_event
from app.kernel import ids
from app.kernel.sql import statement
from schema.states import FINAL_OF_NODE, WorkflowStatus

REOPENED = statement(
    "workflow_nodes.reopened",
    """
    SELECT node, item FROM workflow_nodes
     WHERE workflow_id = :workflow_id AND is_reopened ORDER BY node, item LIMIT :limit
    """,
)
TAKEN_BACK = statement(
    "workflow_nodes.taken_back",
    """
    UPDATE workflow_nodes AS n SET is_reopened = false
      FROM unnest(CAST(:nodes AS BIGINT[]), CAST(:items AS BIGINT[])) AS u (node, item)
     WHERE n.workflow_id = :workflow_id AND n.node = ANY (CAST(:nodes AS BIGINT[]))
       AND n.node = u.node AND n.item = u.item
    """,
)
RECOUNT = statement(
    "workflow_nodes.recount_parents",
    """
    UPDATE workflow_nodes AS n SET open_parents = u.open_parents, failed_parents = u.failed_parents
      FROM unnest(CAST(:nodes AS BIGINT[]), CAST(:open_parents AS BIGINT[]), CAST(:failed_parents AS BIGINT[]))
           AS u (node, open_parents, failed_parents)
     WHERE n.workflow_id = :workflow_id AND n.node = ANY (CAST(:nodes AS BIGINT[])) AND n.item = 0 AND n.node = u.node
    """,
)
# A workflow that has ended gets its deadline again, from now.
REOPEN = statement(
    "workflows.reopen",
    """
    UPDATE workflows
       SET status = :status, reason = :reason, compensates = CAST(:compensates AS BOOLEAN),
           ended_at = NULL, revision = revision + 1,
           open_nodes = nodes - CAST(:counted AS BIGINT), running = running + CAST(:running AS BIGINT),
           succeeded = :succeeded, failed = :failed, cancelled = :cancelled, skipped = :skipped,
           deadline_at = CASE WHEN ended_at IS NULL THEN deadline_at ELSE {deadline} END
     WHERE workflow_id = :workflow_id AND revision = :revision
    RETURNING revision
    """,
    deadline=retrying.NEW_DEADLINE,
)
COMPENSATE_AGAIN = statement(
    "workflows.compensate_again",
    """
    UPDATE workflows
       SET status = 'COMPENSATING', reason = CASE WHEN reason = 'CANCELLED' THEN 'NODE_FAILED' ELSE reason END,
           ended_at = NULL, running = running + 1, revision = revision + 1
     WHERE workflow_id = :workflow_id AND revision = :revision
    RETURNING revision
    """,
)


class _Reopened(NamedTuple):
    """Marked nodes, and the numbers of marked items by their nodes."""

    rows: Sequence[Row[Any]]

    @property
    def nodes(self) -> set[int]:
        return {row.node for row in self.rows if not row.item}

    @property
    def places(self) -> dict[str, list[int]]:
        return {"nodes": [row.node for row in self.rows], "items": [row.item for row in self.rows]}

    @property
    def items(self) -> Counter[int]:
        return Counter(row.node for row in self.rows if row.item)


def take_back(connection: Connection, step: WorkflowStep) -> None:
    """Take back the reports of up to 500 nodes and items."""
    key = {"workflow_id": step.workflow_id}
    reopened = _Reopened(connection.execute(REOPENED, key | {"limit": STEP}).all())
    step.has_changed = True
    if any(row.item < 0 for row in reopened.rows):
        _compensate_again(connection, step, reopened)
        return
    graph = retrying.read_graph(connection, step.workflow_id)
    with_items = {number for number in reopened.items if graph.nodes[number].state in FINAL_OF_NODE}
    workflow = step.workflow
    plan = plan_take_back(graph, reopened.nodes | with_items, workflow.reason, is_over=workflow.is_over)
    nodes = node_rows.read(connection, step.workflow_id, {*reopened.items, *plan.continued})
    for node in nodes:
        _continue(node, reopened.items[node.node], plan)
    node_rows.write(connection, step.workflow_id, nodes)
    retrying.reset(connection, step.workflow_id, plan.again)
    _recount(connection, step.workflow_id, plan)
    connection.execute(TAKEN_BACK, key | reopened.places)
    _reopen(connection, step, plan, len(reopened.rows))


def _compensate_again(connection: Connection, step: WorkflowStep, reopened: _Reopened) -> None:
    """Continue a compensation that failed: its execution runs again."""
    key = {"workflow_id": step.workflow_id}
    connection.execute(TAKEN_BACK, key | reopened.places)
    if not connection.execute(COMPENSATE_AGAIN, key | {"revision": step.workflow.revision}).all():
        raise StepOvertakenError
    change = StatusChange(step.workflow_id, step.workflow.status, WorkflowStatus.COMPENSATING, RETRIED)
    record_event(connection, ids.event_id(), change, actor=None)


def _continue(node: WorkflowNode, reopened: int, plan: TakeBackPlan) -> None:
    node.items_open += reopened
    node.items_failed -= reopened
    item_rules.settle(node, plan.reason)


def _recount(connection: Connection, workflow_id: str, plan: TakeBackPlan) -> None:
    if plan.recounted:
        params = {
            "workflow_id": workflow_id,
            "nodes": [each.node for each in plan.recounted],
            "open_parents": [each.open_parents for each in plan.recounted],
            "failed_parents": [each.failed_parents for each in plan.recounted],
        }
        connection.execute(RECOUNT, params)


def _reopen(connection: Connection, step: WorkflowStep, plan: TakeBackPlan, running: int) -> None:
    before, after = step.workflow.status, plan.status(step.workflow.status)
    counted = Counter(node.state for node in plan.counted)
    params = {
        "workflow_id": step.workflow_id,
        "revision": step.workflow.revision,
        "status": after.value,
        "reason": plan.reason and plan.reason.value,
        "compensates": plan.compensates,
        "counted": counted.total(),
        "running": running,
    }
    params |= {state.value.lower(): counted[state] for state in FINAL_OF_NODE}
    if not connection.execute(REOPEN, params).all():
        raise StepOvertakenError
    if step.workflow.is_over:
        continuation.begin_attempt(connection, step.workflow_id, actor=None)
    if after is not before:
        change = StatusChange(step.workflow_id, before, after, RETRIED)
        record_event(connection, ids.event_id(), change, actor=None)
