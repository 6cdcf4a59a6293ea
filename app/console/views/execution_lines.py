"""Values of an exported execution, for a line of CSV; pure."""

from typing import Any

from app.queue.executions.execution_records import Execution

_OWN = (
    *("execution_id", "job_id", "endpoint", "endpoint_version", "status", "created_at", "scheduled_at", "run_at"),
    *("started_at", "completed_at", "duration_ms", "attempt_count", "max_attempts", "queue", "priority"),
)
COLUMNS = (*_OWN, "limit_key", "worker_id", "error_type", "error_message", "may_have_been_delivered")


def values_of_execution(execution: Execution) -> list[Any]:
    """Return the values of the columns."""
    error = execution.last_error or {}
    own = [getattr(execution, name) for name in _OWN]
    named = [error.get(name) for name in ("type", "message", "may_have_been_delivered")]
    return [*own, execution.limit_key[1:], execution.worker_id, *named]
