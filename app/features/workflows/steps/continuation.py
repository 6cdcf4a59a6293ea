"""Continuation: the execution of a workflow that opens again gets a further attempt, which is the same workflow.

So a redriven dead letter of a node of a sub-workflow carries on all workflows around it: each opens again when the
execution that was its node is retried. The attempt begins with the step that opens the workflow, without a worker and
so without a turn at limits. Any other attempt of an execution starts a workflow of its own.
"""

from sqlalchemy import Connection

from app.kernel.db import hardly_wait
from app.kernel.sql import statement
from app.queue.executions.handover import take_up
from app.queue.executions.manual_retry import RETRIABLE, retry_executions
from schema.job_bounds import OWN_KEY_PREFIX

FIND = statement(
    "workflows.execution_to_continue",
    """
    SELECT e.execution_id, e.status, e.attempt_count FROM workflows AS w
      JOIN executions AS e ON e.execution_id = w.execution_id AND e.attempt_count = w.attempt
     WHERE w.workflow_id = :workflow_id AND e.status IN ('QUEUED', 'RETRYING', 'FAILED', 'CANCELLED')
     ORDER BY e.execution_id LIMIT 1 FOR UPDATE OF e
    """,
)
# The next request to cancel the execution is forwarded again.
CONTINUE = statement(
    "workflows.continue_as_attempt",
    """
    UPDATE workflows SET attempt = CAST(:attempt AS BIGINT), idempotency_key = :key, forwarded = NULL
     WHERE workflow_id = :workflow_id
    """,
)
LOCK = statement(
    "workflows.lock_of_attempt",
    """
    SELECT workflow_id FROM workflows WHERE idempotency_key = :key AND revision >= 0
     ORDER BY workflow_id LIMIT 1 FOR UPDATE
    """,
)
IS_OPEN = statement(
    "workflows.is_open",
    """
    SELECT w.ended_at IS NULL AND w.status <> 'COMPENSATING' AND COALESCE(w.reason <> 'CANCELLED', true)
           OR EXISTS (SELECT 1 FROM workflow_nodes AS n
                       WHERE n.workflow_id = w.workflow_id AND n.is_reopened AND n.item >= 0) AS is_open
      FROM workflows AS w WHERE w.workflow_id = :workflow_id
    """,
)


def key_of_attempt(execution_id: str, attempt: int) -> str:
    """Return the idempotency key of the workflow that is an attempt."""
    return f"{OWN_KEY_PREFIX}execution:{execution_id}:{attempt}"


def begin_attempt(connection: Connection, workflow_id: str, *, actor: str | None) -> None:
    """Begin a further attempt of the execution of a locked workflow that opens.

    Nothing happens for a workflow of a request, and if the execution succeeded, has a later attempt, or must not be
    retried: then the workflow runs alone.
    """
    hardly_wait(connection)  # for the execution, since other workflows wait for this step
    row = connection.execute(FIND, {"workflow_id": workflow_id}).first()
    if row is None:
        return
    if row.status in RETRIABLE and retry_executions(connection, [row.execution_id], actor=actor).refused:
        return
    take_up(connection, row.execution_id, workflow_id)
    continue_as(connection, workflow_id, row.execution_id, row.attempt_count + 1)


def continue_as(connection: Connection, workflow_id: str, execution_id: str, attempt: int) -> None:
    """Make a workflow the workflow of a further attempt of its execution."""
    params = {"workflow_id": workflow_id, "attempt": attempt, "key": key_of_attempt(execution_id, attempt)}
    connection.execute(CONTINUE, params)


def lock_open(connection: Connection, execution_id: str, attempt: int) -> str | None:
    """Lock the workflow of an attempt, and return its id if it is open, or opens with the next step.

    It is locked before its execution, as by steps, and read afterwards, because a step may have ended it meanwhile.
    """
    found: str | None = connection.execute(LOCK, {"key": key_of_attempt(execution_id, attempt)}).scalar()
    if found is None or not connection.execute(IS_OPEN, {"workflow_id": found}).scalar():
        return None
    return found
