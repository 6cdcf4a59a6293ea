"""Chores of workflows: continue workflows that no process advances, end late workflows, and delete old workflows."""

import logging
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from sqlalchemy import Row

from app.features.workflows import control
from app.features.workflows.forwarded_requests import forward_requests
from app.features.workflows.steps import advancing
from app.features.workflows.steps.node_settlement import EndedExecution, settle
from app.features.workflows.stored import pruning
from app.kernel.errors import WorkflowNotFoundError
from app.kernel.sql import hot_statement, statement
from app.kernel.unreadable import readable
from app.scheduler.chore import Chore, ChoreContext, Counts
from schema.states import ExecutionStatus

log = logging.getLogger(__name__)

TURN_SECONDS = 1.0  # of one workflow in a run
MAX_LATE = 100
_FIRST = ("", 0, 0)

# The next workflow with work, from four indexes that are nearly empty.
NEXT = hot_statement(
    "workflows.next_with_work",
    """
    SELECT f.workflow_id FROM (
      (SELECT workflow_id FROM workflow_nodes WHERE reported_to IS NOT NULL AND workflow_id > :after
        ORDER BY workflow_id, node, item LIMIT 1)
      UNION ALL
      (SELECT workflow_id FROM workflow_nodes WHERE state IN ('READY', 'EXPANDING') AND workflow_id > :after
        ORDER BY workflow_id, node, item LIMIT 1)
      UNION ALL
      (SELECT workflow_id FROM workflow_nodes WHERE is_reopened AND workflow_id > :after
        ORDER BY workflow_id, node, item LIMIT 1)
      UNION ALL
      (SELECT workflow_id FROM workflows WHERE cancelling IS NOT NULL AND workflow_id > :after
        ORDER BY workflow_id LIMIT 1)) AS f
     ORDER BY f.workflow_id LIMIT 1
    """,
)
# One index entry for each kind of work of the chore. A passed deadline may need nothing.
ANY_WORK = statement(
    "workflows.any_work",
    """
    (SELECT workflow_id FROM workflow_nodes WHERE state = 'RUNNING' ORDER BY workflow_id, node, item LIMIT 1)
    UNION ALL
    ({next})
    UNION ALL
    (SELECT workflow_id FROM workflows WHERE deadline_at IS NOT NULL AND ended_at IS NULL AND deadline_at <= now()
      ORDER BY deadline_at, workflow_id LIMIT 1)
    UNION ALL
    (SELECT execution_id FROM executions
      WHERE endpoint_type = 'WORKFLOW' AND status = 'RUNNING' AND cancel_requested_at IS NOT NULL
      ORDER BY execution_id LIMIT 1)
    """,
    next=NEXT.text.replace(":after", "''"),
)
# Running nodes whose executions ended some time ago, or are gone: a process of an earlier release handled the end
# without this feature, or somebody changed rows. Five seconds leave the usual way its time. A join would read all
# executions while they are few.
UNSETTLED = statement(
    "workflow_nodes.unsettled",
    """
    WITH page AS MATERIALIZED (
      SELECT workflow_id, node, item, execution_id, started_at FROM workflow_nodes
       WHERE state = 'RUNNING'
         AND (workflow_id, node, item) > (CAST(:workflow_id AS TEXT), CAST(:node AS BIGINT), CAST(:item AS BIGINT))
       ORDER BY workflow_id, node, item LIMIT :limit)
    SELECT page.workflow_id, page.node, page.item, page.execution_id, e.status,
           COALESCE(e.completed_at, now()) AS ended_at,
           page.execution_id IS NOT NULL AND page.started_at < now() - INTERVAL '5 seconds'
           AND (e.execution_id IS NULL
                OR COALESCE(e.completed_at < now() - INTERVAL '5 seconds', false)) AS is_unsettled
      FROM page LEFT JOIN LATERAL (
        SELECT execution_id, status, completed_at FROM executions
         WHERE execution_id = page.execution_id AND page.started_at < now() - INTERVAL '5 seconds' LIMIT 1) AS e ON true
     ORDER BY page.workflow_id, page.node, page.item
    """,
)
LATE = hot_statement(
    "workflows.late",
    """
    SELECT workflow_id FROM workflows
     WHERE {is_late}
     ORDER BY deadline_at, workflow_id LIMIT :limit
    """,
    is_late=control.IS_LATE,
)


def chores(context: ChoreContext) -> list[Chore]:
    unsettled = _Unsettled(context)

    def advance(workflow_id: str) -> None:
        turn = advancing.for_seconds(TURN_SECONDS, or_until=context.stopping)
        advancing.advance(context.database, workflow_id, until=turn, hint=context.hint)

    def continue_workflows() -> Counts:
        """Advance each workflow with work, and settle nodes whose ends were missed."""
        counts = Counts(late=_stop_late(context), asked=forward_requests(context), settled=unsettled.settle_page())
        counts.update(advanced=len(readable(advance, _with_work(context), "workflow {}".format)))
        return counts

    def prune_workflows() -> Counts:
        return pruning.prune(context)

    return [
        Chore("workflows", 1, continue_workflows, condition=ANY_WORK),
        Chore("prune_workflows", 3600, prune_workflows),
    ]


class _Unsettled:
    """Reader of running nodes: compares a page with their executions in each run, and starts again at the end."""

    def __init__(self, context: ChoreContext) -> None:
        self._context = context
        self._after = _FIRST

    def settle_page(self) -> int:
        """Settle nodes of the next page whose executions ended without settling them; returns their number."""
        params = dict(zip(("workflow_id", "node", "item"), self._after, strict=True))
        rows = self._context.database.fetch(UNSETTLED, params | {"limit": self._context.batch})
        is_last = len(rows) < self._context.batch
        self._after = _FIRST if is_last else (rows[-1].workflow_id, rows[-1].node, rows[-1].item)
        unsettled = [row for row in rows if row.is_unsettled]
        ended = readable(_ended, unsettled, "execution {.execution_id}".format)
        if not ended:
            return 0
        settled = {*self._context.database.transact(partial(settle, ended=ended))}
        if settled:
            log.warning("settled nodes whose completion events were missed; workflows: %d", len(settled))
        return len(settled)


def _ended(row: Row[Any]) -> EndedExecution:
    status = None if row.status is None else ExecutionStatus(row.status)
    return EndedExecution.of(row.execution_id, status, None, row.ended_at)


def _stop_late(context: ChoreContext) -> int:
    """Cancel workflows whose deadline has passed, running executions included; returns their number."""

    def stop(workflow_id: str) -> None:
        # A workflow that was deleted in between needs nothing.
        with suppress(WorkflowNotFoundError):
            control.stop_late(context.database, workflow_id)

    late = context.database.fetch(LATE, {"limit": MAX_LATE})
    return len(readable(stop, [row.workflow_id for row in late], "workflow {}".format))


def _with_work(context: ChoreContext) -> Iterator[str]:
    after = ""
    while not context.stopping() and (rows := context.database.fetch(NEXT, {"after": after})):
        after = rows[0].workflow_id
        if advancing.has_work(context.database, after):
            yield after
