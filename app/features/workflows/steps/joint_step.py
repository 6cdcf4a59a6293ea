"""Joint step: ends of one workflow are settled and reported in one transaction, so each ended node is written once.

Many ends wait for a step of another process, for a tenth of a second at most; few ends do not. After the wait, and
after any error, ends are settled alone, and a later step reports them, which writes each node once more.
"""

import time
from collections.abc import Sequence

from sqlalchemy import Connection

from app.features.workflows.steps import advancing, reporting
from app.features.workflows.steps.node_settlement import EndedExecution, settle
from app.features.workflows.steps.step import StepOvertakenError, WorkflowStep
from app.kernel.db.hot import run_in
from app.kernel.formats import array_literal
from app.kernel.sql import hot_statement
from schema.states import NodeState

MANY = 20  # ends; fewer do not wait
PATIENCE_SECONDS = 0.1
_POLL_SECONDS = 0.01

FIND = hot_statement(
    "workflow_nodes.find_ended",
    """
    SELECT n.workflow_id, n.node, n.item, n.execution_id, 'SUCCEEDED' AS state, NULL AS reason, 0 AS reported_to
      FROM unnest(CAST(:executions AS TEXT[]), CAST(:instants AS TIMESTAMPTZ[])) AS u (execution_id, ended_at)
      JOIN workflow_nodes AS n ON n.execution_id = u.execution_id
     WHERE n.execution_id = ANY (CAST(:executions AS TEXT[])) AND COALESCE(n.state = 'RUNNING', false)
       AND (n.retried_end IS NULL OR u.ended_at > n.retried_end)
     ORDER BY n.workflow_id, n.node, n.item
    """,
)


def make(connection: Connection, ended: Sequence[EndedExecution]) -> WorkflowStep | None:
    """Settle executions that succeeded, and make a step with their ends; None if that has to be done separately.

    Failures are left out: their handlers lock executions, and a step locks its workflow before executions. Raises
    StepOvertakenError and EndpointChangedError if the transaction has to be undone.
    """
    if any(each.state is not NodeState.SUCCEEDED for each in ended):
        return None
    instants = {each.execution_id: each.ended_at for each in ended}
    params = {"executions": array_literal(instants), "instants": array_literal(instants.values())}
    found = run_in(connection, FIND, params, joins=len(instants))
    workflows = {row.workflow_id for row in found}
    if len(workflows) != 1:
        return None
    patience = PATIENCE_SECONDS if len(found) >= MANY else 0.0
    made = _begin(connection, workflows.pop(), patience)
    if made is None or not made.workflow.is_plain:
        return None
    reported = dict(
        zip((row.execution_id for row in found), reporting.report_new(connection, made, found), strict=True)
    )
    if len(settle(connection, [each for each in ended if each.execution_id in reported], reported)) < len(found):
        raise StepOvertakenError  # a manual retry has let an execution run again
    advancing.start_and_finish(connection, made)
    return made


def _begin(connection: Connection, workflow_id: str, patience: float) -> WorkflowStep | None:
    """Lock a workflow for a step, within some seconds; None if another step holds it.

    A wait for the lock in the database could end with an error, which would undo the transaction.
    """
    until = time.monotonic() + patience
    while (made := advancing.begin(connection, workflow_id)) is None and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
    return made
