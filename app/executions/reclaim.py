"""Taking RUNNING executions back from workers that will not conclude them.

Candidates are read first, so that every new row has an id before the first try; then one statement acts, and its
UPDATE repeats the whole condition: of two schedulers and a late conclusion, one wins and the others change nothing.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from app import ids
from app.db import Database
from app.executions.model import DeliveryError
from app.executions.settlement import settlement_of
from app.sql import statement

LOST = statement(
    "executions.lost",
    """
    SELECT e.execution_id, e.attempt_count,
           COALESCE((SELECT v.retry_policy -> 'fail_on' @> '["WORKER_LOST"]'
                            OR e.scheduled_at + CAST(v.retry_policy ->> 'max_age_ms' AS BIGINT)
                                                * INTERVAL '1 millisecond' < now()
                       FROM endpoint_versions AS v
                      WHERE v.endpoint = e.endpoint AND v.version = e.endpoint_version), false) AS is_final
      FROM executions AS e
     WHERE e.status = 'RUNNING'
       AND NOT EXISTS (SELECT 1 FROM workers AS w
                        WHERE w.worker_id = e.worker_id AND w.status = 'ALIVE' AND w.lease_expires_at > now())
     ORDER BY e.worker_id, e.execution_id LIMIT :limit
    """,
)

STUCK = statement(
    "executions.stuck",
    """
    SELECT e.execution_id, e.attempt_count,
           COALESCE((SELECT v.retry_policy -> 'fail_on' @> '["STUCK"]'
                            OR e.scheduled_at + CAST(v.retry_policy ->> 'max_age_ms' AS BIGINT)
                                                * INTERVAL '1 millisecond' < now()
                       FROM endpoint_versions AS v
                      WHERE v.endpoint = e.endpoint AND v.version = e.endpoint_version), false) AS is_final
      FROM executions AS e
     WHERE e.status = 'RUNNING'
       AND e.started_at <= now() - CAST(:stuck_ms AS BIGINT) * INTERVAL '1 millisecond'
     ORDER BY e.worker_id, e.execution_id LIMIT :limit
    """,
)

# A lease that is over is never renewed (app.executions.workers), so what is lost stays lost between the two reads.
# = ANY is implied by the join; it keeps the plan to the primary key while the table's statistics are old.
RECLAIM = statement(
    "executions.reclaim",
    f"""
    WITH lost AS (
      SELECT * FROM unnest(CAST(:ids AS TEXT[]), CAST(:attempts AS BIGINT[]), CAST(:attempt_ids AS TEXT[]),
                           CAST(:log_ids AS TEXT[]), CAST(:finals AS BOOLEAN[]))
      AS u (execution_id, attempt, attempt_id, log_id, is_final)),
    taken AS (
      UPDATE executions AS e
         SET status = CASE WHEN lost.is_final OR e.attempt_count >= e.max_attempts THEN 'FAILED'
                           WHEN e.cancel_requested_at IS NOT NULL THEN 'CANCELLED' ELSE 'RETRYING' END,
             run_at = CASE WHEN lost.is_final OR e.attempt_count >= e.max_attempts
                                OR e.cancel_requested_at IS NOT NULL THEN e.run_at ELSE now() END,
             completed_at = CASE WHEN lost.is_final OR e.attempt_count >= e.max_attempts
                                      OR e.cancel_requested_at IS NOT NULL THEN now() END,
             duration_ms = CAST(EXTRACT(EPOCH FROM (now() - e.started_at)) * 1000 AS BIGINT)
        FROM lost
       WHERE e.execution_id = ANY (CAST(:ids AS TEXT[]))
         AND e.execution_id = lost.execution_id AND e.attempt_count = lost.attempt AND e.status = 'RUNNING'
         AND CASE WHEN CAST(:stuck_ms AS BIGINT) IS NULL
             THEN NOT EXISTS (SELECT 1 FROM workers AS w
                               WHERE w.worker_id = e.worker_id AND w.status = 'ALIVE' AND w.lease_expires_at > now())
             ELSE e.started_at <= now() - CAST(:stuck_ms AS BIGINT) * INTERVAL '1 millisecond' END
      RETURNING e.execution_id, e.job_id, e.queue, e.worker_id, e.attempt_count, e.status, e.scheduled_at,
                e.started_at, e.duration_ms, lost.attempt_id, lost.log_id,
                lost.is_final),
    tried AS (
      INSERT INTO attempts (attempt_id, execution_id, attempt_number, status, worker_id, started_at, completed_at,
                            duration_ms, error)
      SELECT taken.attempt_id, taken.execution_id, taken.attempt_count, 'FAILED', taken.worker_id, taken.started_at,
             now(), taken.duration_ms, CAST(:error AS JSONB)
        FROM taken
      ON CONFLICT (execution_id, attempt_number) DO NOTHING
      RETURNING attempt_id),
    logged AS (
      INSERT INTO execution_logs (log_id, execution_id, attempt_number, level, message)
      SELECT taken.log_id, taken.execution_id, taken.attempt_count,
             CASE WHEN taken.status = 'FAILED' THEN 'ERROR' ELSE 'WARN' END,
             CASE WHEN taken.is_final THEN CAST(:final AS TEXT)
                  WHEN taken.status = 'FAILED' THEN CAST(:failed AS TEXT)
                  WHEN taken.status = 'CANCELLED' THEN CAST(:cancelled AS TEXT) ELSE CAST(:retrying AS TEXT) END
        FROM taken
      RETURNING log_id),
    settled AS ({settlement_of("taken", at="now()", when="taken.status <> 'RETRYING'")})
    SELECT queue, status, count(*) AS executions FROM taken GROUP BY queue, status
    """,  # noqa: S608 - constants of this package
)


class LossReason(Enum):
    """Why an attempt is given up on its worker's behalf: the type of the attempt's error."""

    WORKER_LOST = "the worker's lease ran out before it wrote a result"
    STUCK = "no result was written within the stuck timeout"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An execution that may have to be taken back, its attempt, and whether its policy forbids another."""

    execution_id: str
    attempt: int
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """What became of the executions that were taken back; `queues` hold the ones to retry."""

    queues: frozenset[str]
    retrying: int
    failed: int
    cancelled: int


def lost(database: Database, *, limit: int) -> list[Candidate]:
    """Read RUNNING executions whose worker has no valid lease: it is over, DEAD, or its row is missing."""
    rows = database.fetch(LOST, {"limit": limit})
    return [Candidate(row.execution_id, row.attempt_count, row.is_final) for row in rows]


def stuck(database: Database, *, stuck_ms: int, limit: int) -> list[Candidate]:
    """Read RUNNING executions that were claimed longer than `stuck_ms` ago."""
    rows = database.fetch(STUCK, {"stuck_ms": stuck_ms, "limit": limit})
    return [Candidate(row.execution_id, row.attempt_count, row.is_final) for row in rows]


def reclaim_lost(database: Database, candidates: Sequence[Candidate]) -> Reclaimed:
    """End the attempts of candidates whose worker still has no valid lease, as WORKER_LOST."""
    return _reclaim(database, candidates, LossReason.WORKER_LOST, None)


def reclaim_stuck(database: Database, candidates: Sequence[Candidate], *, stuck_ms: int) -> Reclaimed:
    """End the attempts of candidates that are still older than `stuck_ms`, as STUCK."""
    return _reclaim(database, candidates, LossReason.STUCK, stuck_ms)


def _reclaim(
    database: Database, candidates: Sequence[Candidate], reason: LossReason, stuck_ms: int | None
) -> Reclaimed:
    if not candidates:
        return Reclaimed(frozenset(), 0, 0, 0)
    rows = database.fetch(RECLAIM, _params(candidates, reason, stuck_ms))
    counts = Counter[str]()
    for row in rows:
        counts[row.status] += row.executions
    return Reclaimed(
        queues=frozenset(row.queue for row in rows if row.status == "RETRYING"),
        retrying=counts["RETRYING"],
        failed=counts["FAILED"],
        cancelled=counts["CANCELLED"],
    )


def _params(candidates: Sequence[Candidate], reason: LossReason, stuck_ms: int | None) -> dict[str, object]:
    # In key order, as conclusions are, so that the two never lock the same rows crosswise.
    ordered = sorted(candidates, key=lambda c: c.execution_id)
    error = DeliveryError(reason.name, reason.value, may_have_been_delivered=True)
    return {
        "ids": [c.execution_id for c in ordered],
        "attempts": [c.attempt for c in ordered],
        "attempt_ids": [ids.attempt_id() for _ in ordered],
        "log_ids": [ids.log_id() for _ in ordered],
        "finals": [c.is_final for c in ordered],
        "stuck_ms": stuck_ms,
        "error": json.dumps(error.as_json(retryable=True)),
        "failed": f"{reason.value}; no attempts are left",
        "final": f"{reason.value}; the retry policy allows no other attempt",
        "cancelled": f"{reason.value}; it was asked to be cancelled, so it is not tried again",
        "retrying": f"{reason.value}; trying again",
    }
