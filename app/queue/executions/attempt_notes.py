"""Notes on running attempts: a passed soft limit, or the start of an actor that may have killed its worker before."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from app.kernel import ids
from app.kernel.db import Database
from app.kernel.sql import statement
from app.queue.ending.execution_events import ChangeReason
from app.queue.executions.execution_model import ClaimKey

# Fenced like a release: an attempt that has ended, or belongs to another worker, is not recorded.
NOTE = statement(
    "executions.note_attempts",
    """
    WITH noted AS (
      SELECT e.execution_id, u.attempt, u.event_id, u.log_id, u.reason, u.message,
             now() - u.ago_ms * INTERVAL '1 millisecond' AS noted_at
        FROM unnest(CAST(:ids AS TEXT[]), CAST(:attempts AS BIGINT[]), CAST(:claimed AS TIMESTAMPTZ[]),
                    CAST(:ago_ms AS BIGINT[]), CAST(:reasons AS TEXT[]), CAST(:messages AS TEXT[]),
                    CAST(:event_ids AS TEXT[]), CAST(:log_ids AS TEXT[]))
             AS u (execution_id, attempt, claimed_at, ago_ms, reason, message, event_id, log_id)
        JOIN executions AS e ON e.execution_id = u.execution_id
       WHERE COALESCE(e.attempt_count = u.attempt AND e.started_at = u.claimed_at
                      AND e.worker_id = :worker AND e.status = 'RUNNING', false)),
    recorded AS (
      INSERT INTO execution_events (event_id, execution_id, from_status, to_status, attempt_number, actor, reason,
                                    occurred_at)
      SELECT event_id, execution_id, 'RUNNING', 'RUNNING', attempt, :worker, reason, noted_at FROM noted
      ON CONFLICT (event_id) DO NOTHING
      RETURNING event_id),
    logged AS (
      INSERT INTO execution_logs (log_id, execution_id, attempt_number, level, message, logged_at)
      SELECT log_id, execution_id, attempt, 'WARN', message, noted_at FROM noted WHERE message IS NOT NULL
      ON CONFLICT (log_id) DO NOTHING
      RETURNING log_id)
    SELECT reason FROM noted
    """,
)


class AttemptNote(NamedTuple):
    """Event of a running attempt at `noted_at` on time.monotonic(); the ids make its write repeatable."""

    key: ClaimKey
    reason: ChangeReason
    message: str | None
    """Text of the WARN line; None: no line, as the event is no reason to act."""
    noted_at: float
    event_id: str
    log_id: str

    @classmethod
    def of_soft_limit(cls, claim: ClaimKey, limit_ms: int) -> "AttemptNote":
        message = f"attempt {claim.attempt} runs beyond its soft limit of {limit_ms} ms"
        return cls._now(claim, ChangeReason.SOFT_LIMIT, message)

    @classmethod
    def of_start(cls, claim: ClaimKey) -> "AttemptNote":
        return cls._now(claim, ChangeReason.ACTOR_STARTED, None)

    @classmethod
    def _now(cls, claim: ClaimKey, reason: ChangeReason, message: str | None) -> "AttemptNote":
        return cls(claim, reason, message, time.monotonic(), ids.event_id(), ids.log_id())


def note(
    database: Database, worker_id: str, notes: Sequence[AttemptNote], *, unless_locked: bool = False
) -> Counter[str]:
    """Write the event and the WARN line of each attempt that is still running; returns their number by reason."""
    now = time.monotonic()
    params = {
        "worker": worker_id,
        "ids": [one.key.execution_id for one in notes],
        "attempts": [one.key.attempt for one in notes],
        "claimed": [one.key.claimed_at for one in notes],
        "ago_ms": [int((now - one.noted_at) * 1000) for one in notes],
        "reasons": [one.reason.value for one in notes],
        "messages": [one.message for one in notes],
        "event_ids": [one.event_id for one in notes],
        "log_ids": [one.log_id for one in notes],
    }
    fetch = database.fetch_unless_locked if unless_locked else database.fetch
    return Counter(row.reason for row in fetch(NOTE, params))
