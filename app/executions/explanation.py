"""One plain answer to the question why an execution is where it is; every query in it is bounded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row

from app.db import Database
from app.errors import ExecutionNotFoundError
from app.executions.events import Reason
from app.formats import rfc3339
from app.sql import statement
from schema.states import ExecutionStatus, JobStatus, WorkerStatus

MOST_AHEAD = 1000

# The attempt that ended last; while one is running it has no row yet, and none is asked for.
FACTS = statement(
    "executions.explain",
    """
    SELECT now() AS now, e.execution_id, e.status, e.queue, e.shard, e.run_at, e.attempt_count, e.max_attempts,
           e.worker_id, e.started_at, e.completed_at, e.created_at, e.cancel_requested_at, e.on_hold,
           j.status AS job_status, j.paused_at, a.error, a.completed_at AS failed_at,
           w.lease_expires_at, w.status AS worker_status
      FROM executions AS e
      JOIN jobs AS j ON j.job_id = e.job_id
      LEFT JOIN workers AS w ON w.worker_id = e.worker_id
      LEFT JOIN attempts AS a ON a.execution_id = e.execution_id AND a.attempt_number = e.attempt_count
     WHERE e.execution_id = :execution_id
    """,
)
QUEUE = statement(
    "executions.explain_queue",
    """
    SELECT (SELECT count(*) FROM workers AS w
             WHERE w.status = 'ALIVE' AND w.lease_expires_at > now()
               AND w.queues @> jsonb_build_array(CAST(:queue AS TEXT))) AS workers,
           (SELECT count(*) FROM (
              SELECT o.execution_id FROM executions AS o
               WHERE o.queue = :queue AND o.shard = :shard AND o.status IN ('QUEUED', 'RETRYING')
                 AND (o.run_at, o.execution_id) < (CAST(:run_at AS TIMESTAMPTZ), CAST(:execution_id AS TEXT))
               ORDER BY o.run_at, o.execution_id LIMIT :most) AS ahead) AS ahead
    """,
)
LAST_EVENT = statement(
    "executions.explain_event",
    """
    SELECT actor, reason, occurred_at FROM execution_events
     WHERE execution_id = :execution_id AND reason = ANY (CAST(:reasons AS TEXT[]))
     ORDER BY occurred_at DESC, event_id DESC LIMIT 1
    """,
)
_CANCELLING = [Reason.CANCELLED, Reason.JOB_CANCELLED, Reason.JOB_UPDATED, Reason.CANCEL_REQUESTED]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an execution is where it is: for programs, in a sentence, since when, and until when where that is known."""

    status: ExecutionStatus
    reason: str
    explanation: str
    since: datetime
    until: datetime | None = None
    details: dict[str, Any] = field(default_factory=dict)


def explain(database: Database, execution_id: str, *, reclaim_every: timedelta) -> Explanation:
    """Explain an execution; raises ExecutionNotFoundError."""
    rows = database.fetch(FACTS, {"execution_id": execution_id})
    if not rows:
        raise ExecutionNotFoundError.of(execution_id)
    row = rows[0]
    status = ExecutionStatus(row.status)
    if status is ExecutionStatus.RUNNING:
        return _running(database, row, reclaim_every)
    if status is ExecutionStatus.CANCELLED:
        return _cancelled(database, row)
    if status in _OVER:
        return _OVER[status](row)
    return _waiting(database, row)


def _waiting(database: Database, row: Row[Any]) -> Explanation:
    status, error = ExecutionStatus(row.status), row.error or {}
    since = row.failed_at or row.created_at
    details: dict[str, Any] = {"attempts": row.attempt_count, "max_attempts": row.max_attempts}
    if error:
        details["last_error"] = error
    if row.on_hold or _is_about_to_be_held(row):
        held = "Its job is paused; it goes on when the job is resumed."
        return Explanation(status, "JOB_PAUSED", held, row.paused_at or since, None, details)
    if row.run_at > row.now and error:
        text = f"Attempt {row.attempt_count} of {row.max_attempts} failed ({_of(error)}); the next is due at"
        return Explanation(status, "RETRYING_AFTER_ERROR", f"{text} {_at(row.run_at)}.", since, row.run_at, details)
    if row.run_at > row.now:
        text = f"It is due at {_at(row.run_at)}."
        return Explanation(status, "WAITING_FOR_RUN_AT", text, since, row.run_at, details)
    if status is ExecutionStatus.PENDING:
        text = f"It has been due since {_at(row.run_at)}, and no scheduler has queued it yet: perhaps none runs."
        return Explanation(status, "WAITING_FOR_SCHEDULER", text, row.run_at, None, details)
    return _due(database, row, details)


def _is_about_to_be_held(row: Row[Any]) -> bool:
    # It was running when its job was paused; what was asked for during the pause goes on.
    is_retry = (row.status, row.job_status) == (ExecutionStatus.RETRYING, JobStatus.PAUSED)
    return is_retry and bool(row.created_at <= row.paused_at)


def _due(database: Database, row: Row[Any], details: dict[str, Any]) -> Explanation:
    status, params = ExecutionStatus(row.status), {"queue": row.queue, "shard": row.shard, "run_at": row.run_at}
    params |= {"execution_id": row.execution_id, "most": MOST_AHEAD + 1}
    (queue,) = database.fetch(QUEUE, params)
    details |= {"queue": row.queue, "workers": queue.workers, "ahead": min(queue.ahead, MOST_AHEAD)}
    if not queue.workers:
        text = f"It has been due since {_at(row.run_at)}, and no live worker serves the queue {row.queue!r}."
        return Explanation(status, "NO_WORKER", text, row.run_at, None, details)
    if queue.ahead:
        count = f"more than {MOST_AHEAD}" if queue.ahead > MOST_AHEAD else str(queue.ahead)
        text = f"It is due, but {count} became due before it in the queue {row.queue!r}, which {queue.workers} live"
        text += " worker serves." if queue.workers == 1 else " workers serve."
        return Explanation(status, "BEHIND_OTHERS", text, row.run_at, None, details)
    text = f"It is due and the next in the queue {row.queue!r}; a worker takes it as soon as it has room."
    return Explanation(status, "NEXT_IN_QUEUE", text, row.run_at, None, details)


def _running(database: Database, row: Row[Any], reclaim_every: timedelta) -> Explanation:
    status, attempt = ExecutionStatus.RUNNING, f"Attempt {row.attempt_count} of {row.max_attempts}"
    details = {"worker_id": row.worker_id, "attempts": row.attempt_count, "max_attempts": row.max_attempts}
    lease = row.lease_expires_at
    if lease is None or row.worker_status != WorkerStatus.ALIVE or lease <= row.now:
        lost_at = lease or row.started_at
        by = max(lost_at, row.now) + reclaim_every
        text = f"The worker {row.worker_id} was lost at {_at(lost_at)}; a scheduler takes this back by {_at(by)}."
        return Explanation(status, "WORKER_LOST", text, lost_at, by, details)
    details["lease_expires_at"] = lease.isoformat()
    if row.cancel_requested_at is not None:
        by_whom = _by(_event(database, row))
        text = f"Its cancellation was requested{by_whom}; {attempt.lower()} is under way, and no other will follow."
        return Explanation(status, "CANCEL_REQUESTED", text, row.cancel_requested_at, None, details)
    text = f"{attempt} has been running on worker {row.worker_id}, whose lease ends at {_at(lease)} unless renewed."
    return Explanation(status, "RUNNING", text, row.started_at, None, details)


def _cancelled(database: Database, row: Row[Any]) -> Explanation:
    event = _event(database, row)
    why = {Reason.JOB_CANCELLED: ", with its job", Reason.JOB_UPDATED: ", because its job was updated"}
    cause = why.get(event.reason, "") if event is not None else ""
    details: dict[str, Any] = {"attempts": row.attempt_count, "actor": event.actor if event is not None else None}
    text = f"It was cancelled{_by(event)}{cause} after {row.attempt_count} attempt(s)."
    if event is not None and event.reason == Reason.CANCEL_REQUESTED:
        text = f"Its cancellation was requested{_by(event)} while it was running; it ended without success."
    reason = "JOB_CANCELLED" if cause else "CANCELLED"
    return Explanation(ExecutionStatus.CANCELLED, reason, text, row.completed_at, None, details)


def _succeeded(row: Row[Any]) -> Explanation:
    text = f"It was delivered by attempt {row.attempt_count} of {row.max_attempts}."
    details = {"attempts": row.attempt_count, "worker_id": row.worker_id}
    return Explanation(ExecutionStatus.SUCCESS, "SUCCEEDED", text, row.completed_at, None, details)


def _failed(row: Row[Any]) -> Explanation:
    error = row.error or {}
    used_up = row.attempt_count >= row.max_attempts
    why = "none is left" if used_up else "another would not help, or its retry policy allows none"
    text = f"Attempt {row.attempt_count} of {row.max_attempts} failed ({_of(error)}), and {why}."
    details = {"attempts": row.attempt_count, "max_attempts": row.max_attempts, "last_error": error}
    reason = "ATTEMPTS_USED_UP" if used_up else "FAILED_FOR_GOOD"
    return Explanation(ExecutionStatus.FAILED, reason, text, row.completed_at, None, details)


_OVER: Mapping[ExecutionStatus, Callable[[Row[Any]], Explanation]] = {
    ExecutionStatus.SUCCESS: _succeeded,
    ExecutionStatus.FAILED: _failed,
}


def _event(database: Database, row: Row[Any]) -> Row[Any] | None:
    params = {"execution_id": row.execution_id, "reasons": [reason.value for reason in _CANCELLING]}
    rows = database.fetch(LAST_EVENT, params)
    return rows[0] if rows else None


def _by(event: Row[Any] | None) -> str:
    return f" by {event.actor}" if event is not None and event.actor else ""


def _of(error: Mapping[str, Any]) -> str:
    return f"{error.get('type', 'unknown')}: {error.get('message', '')}".removesuffix(": ")


def _at(instant: datetime) -> str:
    return rfc3339(instant, "milliseconds")
