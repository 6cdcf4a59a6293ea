"""Explanation of an execution, and the facts behind it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from app.kernel.db.rows import RowValue
from app.kernel.formats import rfc3339
from app.kernel.sql import statement
from schema.states import ExecutionStatus, WorkerStatus

# Joins the attempt that ended last; a running attempt has no row yet.
FACTS = statement(
    "executions.explain",
    """
    SELECT now() AS now, e.execution_id, e.status, e.queue, e.shard, e.endpoint, e.limit_key, e.priority, e.run_at,
           e.attempt_count, e.max_attempts, e.worker_id, e.started_at, e.completed_at, e.created_at,
           e.cancel_requested_at, e.abort_requested_at, e.on_hold, j.paused_at,
           n.paused_at AS endpoint_paused_at, q.paused_at AS queue_paused_at, n.limits,
           COALESCE(a.error, '{}') AS error, a.completed_at AS failed_at, w.lease_expires_at, w.status AS worker_status
      FROM executions AS e
      JOIN jobs AS j ON j.job_id = e.job_id
      JOIN endpoints AS n ON n.name = e.endpoint
      LEFT JOIN paused_queues AS q ON q.queue = e.queue
      LEFT JOIN workers AS w ON w.worker_id = e.worker_id
      LEFT JOIN attempts AS a ON a.execution_id = e.execution_id AND a.attempt_number = e.attempt_count
     WHERE e.execution_id = :execution_id
    """,
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explanation of a state: a reason code, a sentence, the start of the state, and its end if known."""

    status: ExecutionStatus
    reason: str
    explanation: str
    since: datetime
    until: datetime | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts(RowValue):
    """Facts behind an explanation: the execution, its job, endpoint and worker, and its last attempt's error."""

    now: datetime
    execution_id: str
    status: ExecutionStatus
    queue: str
    shard: int
    endpoint: str
    limit_key: str
    priority: int
    run_at: datetime
    attempt_count: int
    max_attempts: int
    worker_id: str | None
    started_at: datetime  # only read if RUNNING, then not NULL
    completed_at: datetime  # only read if ended, then not NULL
    created_at: datetime
    cancel_requested_at: datetime | None
    abort_requested_at: datetime | None
    on_hold: bool
    paused_at: datetime | None
    endpoint_paused_at: datetime | None
    queue_paused_at: datetime | None
    limits: Mapping[str, Any] | None
    error: Mapping[str, Any]
    failed_at: datetime | None
    lease_expires_at: datetime | None
    worker_status: WorkerStatus | None


def at(instant: datetime) -> str:
    """Format an instant for a sentence."""
    return rfc3339(instant, "milliseconds")
