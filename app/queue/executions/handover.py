"""Handover: a RUNNING execution passes from its worker to a workflow, which completes it when it ends.

The id of the workflow takes the place of the id of the worker in the fence. So the worker can no longer write the
execution, its slot is free, and no lease is needed: the workflow is stored.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, Row

from app.kernel.sql import statement

Starter = Callable[[str, int, Mapping[str, Any]], None]
"""Takes over an attempt of an execution, given by its id, its number and the spec of its endpoint.

Raises DeliveryError if the attempt cannot start, and NotSentError if its worker lost it.
"""
_PREFIX = "wf_"
HAS_WORKFLOW = f"left(e.worker_id, {len(_PREFIX)}) = '{_PREFIX}'"

# A worker holds the execution with one attempt number at a time, so the number and the state are the fence.
HAND_OVER = statement(
    "executions.hand_over",
    """
    WITH handed AS (
      UPDATE executions AS e SET worker_id = :workflow_id
       WHERE e.execution_id = :execution_id
         AND COALESCE(e.attempt_count = :attempt AND e.status = 'RUNNING' AND NOT {has_workflow}, false)
      RETURNING e.execution_id, e.job_id, e.endpoint, e.endpoint_version, e.idempotency_key, e.trace_context)
    SELECT handed.*, j.input, j.labels, j.trace_context AS trace_of_job
      FROM handed JOIN jobs AS j ON j.job_id = handed.job_id
    """,
    has_workflow=HAS_WORKFLOW,
)
# As a claim does; the workflow has locked the execution.
TAKE_UP = statement(
    "executions.take_up",
    """
    UPDATE executions AS e
       SET status = 'RUNNING', worker_id = :workflow_id, started_at = now(), attempt_count = e.attempt_count + 1,
           config_revision = COALESCE(e.config_revision,
                                      (SELECT revision FROM catalog_revision WHERE id = 'catalog'), 0)
     WHERE e.execution_id = :execution_id AND COALESCE(e.status IN ('QUEUED', 'RETRYING'), false)
    """,
)
HOLDER = statement(
    "executions.holder",
    """
    SELECT e.worker_id FROM executions AS e
     WHERE e.execution_id = :execution_id AND e.attempt_count = :attempt AND e.status = 'RUNNING' AND {has_workflow}
    """,
    has_workflow=HAS_WORKFLOW,
)


def has_workflow(worker_id: str | None) -> bool:
    return worker_id is not None and worker_id.startswith(_PREFIX)


def hand_over(connection: Connection, execution_id: str, attempt: int, workflow_id: str) -> Row[Any] | None:
    """Pass an attempt from its worker to a workflow; returns its execution with the input of the job.

    Returns None if the worker no longer holds the attempt: it was lost, or handed over by an earlier run of this
    transaction.
    """
    params = {"execution_id": execution_id, "attempt": attempt, "workflow_id": workflow_id}
    return connection.execute(HAND_OVER, params).first()


def take_up(connection: Connection, execution_id: str, workflow_id: str) -> None:
    """Begin an attempt of a locked, waiting execution that a workflow holds from the start."""
    connection.execute(TAKE_UP, {"execution_id": execution_id, "workflow_id": workflow_id})


def holder(connection: Connection, execution_id: str, attempt: int) -> str | None:
    """Return the id of the workflow that holds an attempt; None if there is none."""
    params = {"execution_id": execution_id, "attempt": attempt}
    found: str | None = connection.execute(HOLDER, params).scalar()
    return found
