"""End of a workflow that is an attempt of an execution: the attempt ends in the step that ends the workflow."""

import random
import time
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row

from app.catalog.retry_policy import RetryPolicy
from app.features.workflows.rules.inputs import compiled
from app.features.workflows.rules.workflow_bounds import MAX_OUTPUT_BYTES
from app.features.workflows.stored import variables
from app.kernel import ids
from app.kernel.errors import TemplateError
from app.kernel.formats import compact_json
from app.kernel.sql import statement
from app.queue.executions.completion import Completion, complete_in, subscribed
from app.queue.executions.execution_model import Claim, ClaimKey, DeliveryError, LogLine
from app.queue.executions.verdict import Tried, Verdict, decide, failure_line, outcome
from schema.states import ExecutionStatus, LogLevel, WorkflowReason, WorkflowStatus

SHOWN = 3  # failed nodes in the error of an attempt
MAX_LEAVES = 100
MAX_MESSAGE = 300  # characters of the message of a node

ATTEMPT = statement(
    "workflows.attempt",
    """
    SELECT e.execution_id, e.job_id, e.endpoint, e.endpoint_version, e.endpoint_type, e.worker_id, e.attempt_count,
           e.max_attempts, e.scheduled_at, e.run_at, e.started_at, e.followed, now() AS now, v.retry_policy,
           v.spec->'output' AS output
      FROM workflows AS w
      JOIN executions AS e ON e.execution_id = w.execution_id AND e.attempt_count = w.attempt
                          AND e.worker_id = w.workflow_id
      LEFT JOIN endpoint_versions AS v ON v.endpoint = w.endpoint AND v.version = w.endpoint_version
     WHERE w.workflow_id = :workflow_id AND e.status = 'RUNNING'
    """,
)
LEAVES = statement(
    "workflow_nodes.leaves",
    """
    SELECT n.name, n.state FROM workflow_nodes AS n
     WHERE n.workflow_id = :workflow_id AND n.item = 0
       AND NOT EXISTS (SELECT 1 FROM workflow_edges AS e WHERE e.workflow_id = :workflow_id AND e.parent = n.node)
     ORDER BY n.node LIMIT {leaves}
    """,
    leaves=MAX_LEAVES,
)
FAILED = statement(
    "workflow_nodes.first_failed",
    """
    SELECT name, state, reason, message FROM workflow_nodes
     WHERE workflow_id = :workflow_id AND item = 0 AND state IN ('FAILED', 'CANCELLED') ORDER BY node LIMIT {shown}
    """,
    shown=SHOWN,
)


def end_attempt(
    connection: Connection, workflow_id: str, status: WorkflowStatus, reason: WorkflowReason | None
) -> list[str]:
    """Complete the attempt of an ended workflow, unless it has ended otherwise; returns ids of completion events."""
    row = connection.execute(ATTEMPT, {"workflow_id": workflow_id}).first()
    if row is None:
        return []
    verdict = _verdict(connection, workflow_id, status, reason, row)
    completion = Completion(
        claim=_claim(row),
        attempt_id=ids.attempt_id(),
        verdict=verdict,
        started_at=row.started_at,
        duration_ms=round((row.now - row.started_at) / timedelta(milliseconds=1)),
        logs=_log(verdict, row),
    )
    complete_in(connection, workflow_id, completion)
    return [written.attempt_id for written in subscribed([completion])]


def _verdict(
    connection: Connection,
    workflow_id: str,
    status: WorkflowStatus,
    reason: WorkflowReason | None,
    row: Row[Any],
) -> Verdict:
    kept = {"workflow_id": workflow_id}
    if status is WorkflowStatus.CANCELLED:
        return Verdict.cancel(DeliveryError("WORKFLOW_CANCELLED", "its workflow was cancelled", extra=kept))
    if status is WorkflowStatus.SUCCEEDED:
        try:
            return Verdict(ExecutionStatus.SUCCESS, output=kept | {"body": _output(connection, workflow_id, row)})
        except TemplateError as refused:
            message = f"the output has no value: {refused.details[0]['message']}"
            return Verdict.fail(DeliveryError("OUTPUT_UNRESOLVABLE", message, permanent=True, extra=kept))
    nodes = [_shown(node) for node in connection.execute(FAILED, {"workflow_id": workflow_id})]
    why = "it stopped at its deadline" if reason is WorkflowReason.DEADLINE else f"failed: {'; '.join(nodes)}"
    error = DeliveryError("WORKFLOW_FAILED", f"its workflow {why}", extra=kept)
    policy = RetryPolicy.in_effect(row.retry_policy, row.endpoint)
    age_ms = (row.now - row.scheduled_at) / timedelta(milliseconds=1)
    tried = Tried(row.execution_id, row.attempt_count, row.max_attempts, age_ms)
    return decide(error, outcome(error, {}, policy), tried, policy, random.uniform(-1, 1))


def _shown(node: Row[Any]) -> str:
    why = node.message or node.reason
    return f"node {node.name} {node.state}" + ("" if why is None else f" ({why[:MAX_MESSAGE]})")


def _output(connection: Connection, workflow_id: str, row: Row[Any]) -> Any:
    """Return the output of a workflow by its definition, else the states of its last nodes; raises TemplateError."""
    if row.output is None:
        return {node.name: node.state for node in connection.execute(LEAVES, {"workflow_id": workflow_id})}
    template = compiled(row.output, "/output")
    values = variables.read(connection, workflow_id, [template])
    if (name := variables.too_large(template, values)) is not None:
        raise _refused(f"the results of {name!r} are too large")
    output = template.render(values)
    if len(compact_json(output).encode()) > MAX_OUTPUT_BYTES:
        raise _refused(f"it has more than {MAX_OUTPUT_BYTES:,} bytes")
    return output


def _refused(message: str) -> TemplateError:
    return TemplateError(message, [{"pointer": "/output", "message": message}])


def _claim(row: Row[Any]) -> Claim:
    return Claim(
        key=ClaimKey(row.execution_id, row.attempt_count, row.started_at),
        execution_id=row.execution_id,
        job_id=row.job_id,
        endpoint=row.endpoint,
        endpoint_version=row.endpoint_version,
        endpoint_type=row.endpoint_type,
        worker_id=row.worker_id,
        attempt=row.attempt_count,
        max_attempts=row.max_attempts,
        config_revision=0,
        scheduled_at=row.scheduled_at,
        claimed_at=row.started_at,
        due_at=row.run_at,
        due_in_seconds=0.0,
        late_seconds=0.0,
        claimed_here=time.monotonic(),
        followed=row.followed or 0,
    )


def _log(verdict: Verdict, row: Row[Any]) -> tuple[LogLine, ...]:
    error = verdict.error
    if error is None:
        return ()
    if verdict.status is ExecutionStatus.CANCELLED:
        text = f"attempt {row.attempt_count} of {row.max_attempts} was cancelled: {error['type']}: {error['message']}"
        return (LogLine(LogLevel.INFO, text),)
    return (failure_line(verdict, row.attempt_count, row.max_attempts),)
