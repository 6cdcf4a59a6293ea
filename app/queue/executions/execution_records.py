"""Stored executions, attempts and log lines, as lists and pages show them; workers never import them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.kernel.db.rows import RowValue
from app.queue.executions.node_key import NodeKey
from schema.states import AttemptStatus, EndpointType, ExecutionStatus, LogLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution(RowValue):
    """A stored execution: one run of a job; `last_error` is the error of its last ended attempt."""

    execution_id: str
    job_id: str
    endpoint: str
    endpoint_type: EndpointType
    endpoint_version: int
    idempotency_key: str | None
    queue: str
    priority: int
    limit_key: str
    status: ExecutionStatus
    output: dict[str, Any] | None
    last_error: dict[str, Any] | None
    attempt_count: int
    max_attempts: int
    worker_id: str | None
    scheduled_at: datetime
    run_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    duration_ms: int | None
    cancel_requested_at: datetime | None
    abort_requested_at: datetime | None
    created_at: datetime

    @property
    def workflow(self) -> NodeKey | None:
        """Return the place in a workflow; None outside of workflows."""
        return NodeKey.parse(self.idempotency_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionWithInput(Execution):
    """An execution with parts of its job, which lists omit."""

    input: dict[str, Any]
    job_name: str | None
    job_labels: dict[str, str] | None
    job_trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord(RowValue):
    """A stored attempt: one try within an execution."""

    attempt_id: str
    execution_id: str
    attempt_number: int
    status: AttemptStatus
    worker_id: str | None
    started_at: datetime
    completed_at: datetime | None
    duration_ms: int | None
    output: dict[str, Any] | None
    error: dict[str, Any] | None
    created_at: datetime
    due_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord(RowValue):
    log_id: str
    execution_id: str
    attempt_number: int
    level: LogLevel
    message: str
    logged_at: datetime
