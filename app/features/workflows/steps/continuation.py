"""Continuation: the execution of a workflow that opens again gets a further attempt, which is the same workflow.

So a redriven dead letter of a node of a sub-workflow carries on all workflows around it: each opens again when the
execution that was its node is retried. Any other attempt of an execution starts a workflow of its own.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row

from app.features.workflows.stored import node_rows
from app.kernel.db import hardly_wait
from app.kernel.sql import statement
from app.queue.executions.manual_retry import RETRIABLE, retry_executions
from schema.job_bounds import OWN_KEY_PREFIX

FIND = statement(
    "workflows.execution_to_continue",
    """
    SELECT w.attempt, e.execution_id, e.status FROM workflows AS w
      JOIN executions AS e ON e.execution_id = w.execution_id AND e.attempt_count = w.attempt
     WHERE w.workflow_id = :workflow_id AND e.status NOT IN ('RUNNING', 'SUCCESS')
     ORDER BY e.execution_id LIMIT 1 FOR UPDATE OF e
    """,
)
# The next request to cancel the execution is forwarded again. Another workflow has the key only if a worker of an
# earlier release started it beside this one.
RESERVE = statement(
    "workflows.reserve_attempt",
    """
    UPDATE workflows AS w SET attempt = CAST(:attempt AS BIGINT), idempotency_key = :key, forwarded = NULL
     WHERE w.workflow_id = :workflow_id
       AND NOT EXISTS (SELECT 1 FROM workflows AS o WHERE o.idempotency_key = :key AND o.workflow_id <> w.workflow_id)
    """,
)
# A workflow that has reserved the attempt may be over. The workflow of the attempt before it continues if it is open.
RESERVED = statement(
    "workflows.of_reserved_attempt",
    """
    SELECT w.workflow_id, w.status, w.reason, w.ended_at IS NOT NULL AND NOT {is_marked} AS is_over
      FROM workflows AS w
     WHERE w.idempotency_key = ANY (CAST(:keys AS TEXT[])) AND w.revision >= 0
       AND (w.idempotency_key = :reserved OR w.ended_at IS NULL OR {is_marked})
     ORDER BY w.workflow_id LIMIT 1 FOR UPDATE OF w
    """,
    is_marked=node_rows.is_marked("w"),
)


def key_of_start(execution_id: str, attempt: int) -> str:
    """Return the idempotency key of a workflow that an attempt starts."""
    return f"{OWN_KEY_PREFIX}execution:{execution_id}:{attempt}"


def reserve_next_attempt(connection: Connection, workflow_id: str, *, actor: str | None) -> Mapping[str, int]:
    """Let the execution of an opened workflow run again; returns the number of executions due now by queue.

    Nothing happens for a workflow of a request, or if the execution succeeded, has another workflow, or must not run
    again. Such a workflow runs alone.
    """
    hardly_wait(connection)  # for the execution, since other workflows wait for this step
    row = connection.execute(FIND, {"workflow_id": workflow_id}).first()
    if row is None:
        return {}
    queues: Mapping[str, int] = {}
    if row.status in RETRIABLE:
        done = retry_executions(connection, [row.execution_id], actor=actor)
        if done.refused:
            return {}
        queues = done.queues
    reserve(connection, workflow_id, row.execution_id, row.attempt + 1)
    return queues


def reserve(connection: Connection, workflow_id: str, execution_id: str, attempt: int) -> None:
    """Make a workflow the workflow of an attempt of its execution."""
    params = {"workflow_id": workflow_id, "attempt": attempt, "key": _key_of_continuation(execution_id, attempt)}
    connection.execute(RESERVE, params)


def lock_reserved(connection: Connection, execution_id: str, attempt: int) -> Row[Any] | None:
    """Lock and return the workflow that an attempt continues, before its execution, as steps do; None without one."""
    if attempt == 1:
        return None
    reserved = _key_of_continuation(execution_id, attempt)
    before = [key_of_start(execution_id, attempt - 1), _key_of_continuation(execution_id, attempt - 1)]
    return connection.execute(RESERVED, {"reserved": reserved, "keys": [reserved, *before]}).first()


def _key_of_continuation(execution_id: str, attempt: int) -> str:
    # Not the key of a start: a worker of an earlier release would hand the attempt over to a workflow that it did not
    # store.
    return f"{OWN_KEY_PREFIX}continuation:{execution_id}:{attempt}"
