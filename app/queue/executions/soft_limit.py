"""Soft limit: record an attempt that takes longer than its endpoint expects, while it is running."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from app.kernel import ids
from app.kernel.db import Database
from app.kernel.sql import statement
from app.queue.executions.execution_model import ClaimKey

# Fenced like a release: an attempt that has ended, or belongs to another worker, is not recorded.
NOTE = statement(
    "executions.note_soft_limit",
    """
    WITH late AS (
      SELECT e.execution_id, u.attempt, u.event_id, u.log_id, u.message,
             now() - u.ago_ms * INTERVAL '1 millisecond' AS passed_at
        FROM unnest(CAST(:ids AS TEXT[]), CAST(:attempts AS BIGINT[]), CAST(:claimed AS TIMESTAMPTZ[]),
                    CAST(:ago_ms AS BIGINT[]), CAST(:messages AS TEXT[]), CAST(:event_ids AS TEXT[]),
                    CAST(:log_ids AS TEXT[]))
             AS u (execution_id, attempt, claimed_at, ago_ms, message, event_id, log_id)
        JOIN executions AS e ON e.execution_id = u.execution_id
       WHERE COALESCE(e.attempt_count = u.attempt AND e.started_at = u.claimed_at
                      AND e.worker_id = :worker AND e.status = 'RUNNING', false)),
    recorded AS (
      INSERT INTO execution_events (event_id, execution_id, from_status, to_status, attempt_number, actor, reason,
                                    occurred_at)
      SELECT event_id, execution_id, 'RUNNING', 'RUNNING', attempt, :worker, 'SOFT_LIMIT', passed_at FROM late
      ON CONFLICT (event_id) DO NOTHING
      RETURNING event_id),
    logged AS (
      INSERT INTO execution_logs (log_id, execution_id, attempt_number, level, message, logged_at)
      SELECT log_id, execution_id, attempt, 'WARN', message, passed_at FROM late
      ON CONFLICT (log_id) DO NOTHING
      RETURNING log_id)
    SELECT execution_id FROM late
    """,
)


class SoftLimitPassed(NamedTuple):
    """An attempt beyond its soft limit at `passed_at` on time.monotonic(); the ids make its write repeatable."""

    key: ClaimKey
    limit_ms: int
    passed_at: float
    event_id: str
    log_id: str

    @classmethod
    def now(cls, claim: ClaimKey, limit_ms: int) -> "SoftLimitPassed":
        return cls(claim, limit_ms, time.monotonic(), ids.event_id(), ids.log_id())


def note(database: Database, worker_id: str, passed: Sequence[SoftLimitPassed], *, unless_locked: bool = False) -> int:
    """Write an event and a WARN line for each attempt that is still running; returns their number."""
    now = time.monotonic()
    params = {
        "worker": worker_id,
        "ids": [one.key.execution_id for one in passed],
        "attempts": [one.key.attempt for one in passed],
        "claimed": [one.key.claimed_at for one in passed],
        "ago_ms": [int((now - one.passed_at) * 1000) for one in passed],
        "messages": [f"attempt {one.key.attempt} runs beyond its soft limit of {one.limit_ms} ms" for one in passed],
        "event_ids": [one.event_id for one in passed],
        "log_ids": [one.log_id for one in passed],
    }
    fetch = database.fetch_unless_locked if unless_locked else database.fetch
    return len(fetch(NOTE, params))
