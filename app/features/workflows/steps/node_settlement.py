"""Settlement: the end of an execution becomes the end of its node.

It writes only RUNNING nodes of its executions, so it waits for no step of a workflow.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from sqlalchemy import Connection

from app.features.workflows.rules.model import NodeReason
from app.features.workflows.stored.node_rows import sparse_array
from app.kernel.db.hot import run_in
from app.kernel.formats import array_literal
from app.kernel.sql import hot_statement
from schema.states import ExecutionStatus, NodeState

# An end from before a manual retry settles nothing.
# COALESCE hides the state from the planner: with statistics from before, the index of running nodes seems to be empty.
SETTLE = hot_statement(
    "workflow_nodes.settle",
    """
    UPDATE workflow_nodes AS n
       SET state = u.state, reason = u.reason, ended_at = u.ended_at, reported_to = u.reported_to
      FROM unnest(CAST(:executions AS TEXT[]), CAST(:states AS TEXT[]), CAST(:reasons AS TEXT[]),
                  CAST(:instants AS TIMESTAMPTZ[]), CAST(:reported AS BIGINT[]))
           AS u (execution_id, state, reason, ended_at, reported_to)
     WHERE n.execution_id = ANY (CAST(:executions AS TEXT[])) AND n.execution_id = u.execution_id
       AND COALESCE(n.state = 'RUNNING', false) AND (n.retried_end IS NULL OR u.ended_at > n.retried_end)
    RETURNING n.workflow_id
    """,
)
_STATES = {
    ExecutionStatus.SUCCESS: NodeState.SUCCEEDED,
    ExecutionStatus.FAILED: NodeState.FAILED,
    ExecutionStatus.CANCELLED: NodeState.CANCELLED,
}


class EndedExecution(NamedTuple):
    """End of an execution of a node; `reason` is set if no attempt ended."""

    execution_id: str
    state: NodeState
    reason: str | None
    ended_at: datetime

    @classmethod
    def of(
        cls, execution_id: str, status: ExecutionStatus | None, reason: str | None, ended_at: datetime
    ) -> "EndedExecution":
        """Build from the status of an execution; None if its row is gone."""
        if status is None:
            return cls(execution_id, NodeState.FAILED, NodeReason.EXECUTION_LOST, ended_at)
        return cls(execution_id, _STATES[status], reason, ended_at)


def settle(
    connection: Connection, ended: Sequence[EndedExecution], reported: Mapping[str, int | None] | None = None
) -> list[str]:
    """End the running nodes of executions; returns the id of the workflow of each.

    Args:
        connection: Connection in a transaction.
        ended: Ends of executions.
        reported: Numbers of the last children that have the reports, by execution; a step reports all others.
    """
    # An execution that was retried in between has several ends: the last end counts.
    ordered = sorted({each.execution_id: each for each in sorted(ended, key=attrgetter("ended_at"))}.values())
    params = {
        "executions": array_literal(each.execution_id for each in ordered),
        "states": array_literal(str(each.state) for each in ordered),
        "reasons": sparse_array(each.reason for each in ordered),
        "instants": array_literal(each.ended_at for each in ordered),
        "reported": sparse_array((reported or {}).get(each.execution_id, 0) for each in ordered),
    }
    return [row.workflow_id for row in run_in(connection, SETTLE, params, joins=len(ordered))]
