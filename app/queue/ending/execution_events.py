"""Events: changes of state without an attempt, recorded in the transaction of the change.

`attempts` has claims, deliveries and reclaims; `app.queue.reading.execution_history` merges both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from sqlalchemy import Connection, Row

from app.kernel import ids
from app.kernel.sql import statement
from schema.states import ExecutionStatus

# The ids are parameters, so that a repeated transaction finds the rows of its first run.
RECORD = statement(
    "execution_events.record",
    """
    INSERT INTO execution_events (event_id, execution_id, from_status, to_status, attempt_number, actor, reason)
    SELECT u.event_id, u.execution_id, u.from_status, u.to_status, u.attempt, CAST(:actor AS TEXT), :reason
      FROM unnest(CAST(:ids AS TEXT[]), CAST(:executions AS TEXT[]), CAST(:befores AS TEXT[]),
                  CAST(:afters AS TEXT[]), CAST(:attempts AS BIGINT[]))
           AS u (event_id, execution_id, from_status, to_status, attempt)
    ON CONFLICT (event_id) DO NOTHING
    """,
)
RECORDED = statement(
    "execution_events.recorded", "SELECT execution_id FROM execution_events WHERE event_id = :event_id"
)


class ChangeReason(StrEnum):
    """Reason of a change of state; the first part of a `reason` in a history."""

    CLAIMED = "CLAIMED"
    HANDED_BACK = "HANDED_BACK"  # released before anything was sent
    SECRET_UNREADABLE = "SECRET_UNREADABLE"  # released and deferred, because its worker could not decrypt a secret
    CANCELLED = "CANCELLED"
    JOB_CANCELLED = "JOB_CANCELLED"
    JOB_UPDATED = "JOB_UPDATED"  # replaced by a new version of its job
    CANCEL_REQUESTED = "CANCEL_REQUESTED"
    ABORT_REQUESTED = "ABORT_REQUESTED"  # cancellation requested, and its running attempt is aborted
    SOFT_LIMIT = "SOFT_LIMIT"  # its attempt exceeds `soft_timeout_ms`
    ACTOR_STARTED = "ACTOR_STARTED"  # its attempt has begun the actor, after an attempt that was lost with its worker
    RETRIED_BY_HAND = "RETRIED_BY_HAND"
    RUN_BY_HAND = "RUN_BY_HAND"  # brought forward
    RESCHEDULED = "RESCHEDULED"  # due at another instant
    JOB_PAUSED = "JOB_PAUSED"
    JOB_RESUMED = "JOB_RESUMED"
    EXPIRED = "EXPIRED"  # waited behind a limit, a pause or an open breaker for longer than max_age_ms allows
    STALE_RESULT = "STALE_RESULT"  # a worker's result came after its claim was lost: refused, no change of state
    NO_ATTEMPTS_LEFT = "NO_ATTEMPTS_LEFT"  # it waited for another attempt, but has used all


@dataclass(frozen=True, slots=True)
class StateChange:
    """One change of state; `attempt` is the execution's attempt_count at that moment."""

    execution_id: str
    before: ExecutionStatus
    after: ExecutionStatus
    attempt: int
    event_id: str = field(default_factory=ids.event_id)

    @classmethod
    def of_rows(
        cls, rows: Iterable[Row[Any]], *, before: ExecutionStatus | None = None, after: ExecutionStatus | None = None
    ) -> list[Self]:
        """Return the changes of rows of executions; the row has the `status` that is not given."""
        return [
            cls(
                row.execution_id,
                before or ExecutionStatus(row.status),
                after or ExecutionStatus(row.status),
                row.attempt_count,
            )
            for row in rows
        ]


def record(connection: Connection, changes: Sequence[StateChange], *, actor: str | None, reason: ChangeReason) -> None:
    """Record changes of this transaction; `actor` is None for changes that were not requested."""
    if not changes:
        return
    params = {
        "ids": [change.event_id for change in changes],
        "executions": [change.execution_id for change in changes],
        "befores": [change.before.value for change in changes],
        "afters": [change.after.value for change in changes],
        "attempts": [change.attempt for change in changes],
        "actor": actor,
        "reason": reason.value,
    }
    connection.execute(RECORD, params)


def recorded(connection: Connection, event_id: str) -> str | None:
    """Return the execution of an event if an earlier run of this transaction was committed; its answer was lost."""
    execution_id: str | None = connection.execute(RECORDED, {"event_id": event_id}).scalar()
    return execution_id
