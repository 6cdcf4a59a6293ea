"""Rescheduling: change when waiting executions are due."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection

from app.kernel.errors import ConflictError, ExecutionNotFoundError, TaskExecutorError
from app.kernel.sql import statement
from app.queue.ending.execution_events import ChangeReason, StateChange, record
from app.queue.executions.execution_insertion import expires_at
from app.queue.executions.execution_model import OperationResult
from schema.states import CANCELLABLE, ExecutionStatus

LOCK = statement(
    "executions.lock_for_rescheduling",
    """
    SELECT execution_id, status, run_at FROM executions
     WHERE execution_id = ANY (CAST(:ids AS TEXT[])) ORDER BY execution_id FOR UPDATE
    """,
)
# run_at is never in the past, where claims have already read (`watermark`). A retry keeps its state, and an execution
# on hold stays on hold. scheduled_at of a one-shot job moves too; a tick keeps its scheduled_at, which names it.
_EXPIRES_AT = expires_at("GREATEST(moved.run_at, now())", "moved.max_age_ms")
RESCHEDULE = statement(
    "executions.reschedule",
    """
    UPDATE executions AS e
       SET run_at = GREATEST(moved.run_at, now() + moved.place * INTERVAL '1 microsecond'),
           expires_at = CASE WHEN e.attempt_count > 0 THEN e.expires_at ELSE {expires_at} END,
           scheduled_at = CASE WHEN moved.is_tick OR e.attempt_count > 0 THEN e.scheduled_at
                               ELSE GREATEST(moved.run_at, now()) END,
           status = CASE WHEN e.status = 'RETRYING' THEN 'RETRYING'
                         WHEN e.on_hold OR moved.run_at > now() + CAST(:ahead_ms AS BIGINT) * INTERVAL '1 millisecond'
                         THEN 'PENDING' ELSE 'QUEUED' END
      FROM (SELECT u.execution_id, u.before, u.run_at, u.place, j.max_age_ms,
                   j.trigger_type IN ('CRON', 'INTERVAL') AS is_tick
              FROM unnest(CAST(:ids AS TEXT[]), CAST(:befores AS TEXT[]), CAST(:instants AS TIMESTAMPTZ[]),
                          CAST(:places AS BIGINT[])) AS u (execution_id, before, run_at, place)
              JOIN executions AS of_job ON of_job.execution_id = u.execution_id
              JOIN jobs AS j ON j.job_id = of_job.job_id) AS moved
     WHERE e.execution_id = ANY (CAST(:ids AS TEXT[])) AND e.execution_id = moved.execution_id
       AND e.status IN ('PENDING', 'QUEUED', 'RETRYING')
    RETURNING e.execution_id, moved.before, e.status, e.attempt_count, e.queue,
              e.run_at <= now() + CAST(:ahead_ms AS BIGINT) * INTERVAL '1 millisecond' AND NOT e.on_hold AS is_due
    """,
    expires_at=_EXPIRES_AT,
)


class NewDueTime(NamedTuple):
    """New due time: an instant, or the present due time, plus a delay and a share of `spread` derived from the id."""

    run_at: datetime | None = None
    delay: timedelta = timedelta(0)
    spread: timedelta = timedelta(0)

    def instant_of(self, execution_id: str, run_at: datetime) -> datetime:
        share = int.from_bytes(hashlib.sha256(execution_id.encode()).digest()[:6]) / 2**48
        return (self.run_at or run_at) + self.delay + self.spread * share


def reschedule(
    connection: Connection, execution_ids: Sequence[str], moved: NewDueTime, *, ahead_ms: int, actor: str | None
) -> OperationResult:
    """Change when executions are due, never into the past; executions that are not waiting are refused."""
    found = {row.execution_id: row for row in connection.execute(LOCK, {"ids": sorted(execution_ids)})}
    refusals = {each: _refusal(each, found[each].status if each in found else None) for each in execution_ids}
    refused = {each: error for each, error in refusals.items() if error is not None}
    rows = [found[each] for each in execution_ids if each not in refused]
    if not rows:
        return OperationResult(refused=refused)
    params = {
        "ids": [row.execution_id for row in rows],
        "befores": [row.status for row in rows],
        "instants": [moved.instant_of(row.execution_id, row.run_at) for row in rows],
        "places": list(range(len(rows))),
        "ahead_ms": ahead_ms,
    }
    done = connection.execute(RESCHEDULE, params).all()
    changes = [
        StateChange(row.execution_id, ExecutionStatus(row.before), ExecutionStatus(row.status), row.attempt_count)
        for row in done
    ]
    record(connection, changes, actor=actor, reason=ChangeReason.RESCHEDULED)
    return OperationResult(Counter(row.queue for row in done if row.is_due), refused)


def _refusal(execution_id: str, status: str | None) -> TaskExecutorError | None:
    if status is None:
        return ExecutionNotFoundError.of(execution_id)
    if ExecutionStatus(status) in CANCELLABLE:
        return None
    return ConflictError(f"The execution {execution_id!r} is {status}: only waiting executions can be rescheduled.")
