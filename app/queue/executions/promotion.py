"""Promotion: queue PENDING executions shortly before they are due."""

from collections import Counter
from datetime import datetime
from typing import NamedTuple

from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.sql import hot_statement, statement

# run_at stays: workers claim executions due within 50 ms and start them at run_at. Late executions become due now, in
# the same order: behind all due executions, where claims have not read yet (app.queue.executions.watermark).
PROMOTE = hot_statement(
    "executions.promote",
    """
    WITH due AS MATERIALIZED (
      SELECT execution_id, run_at FROM executions
       WHERE shard = :shard AND status = 'PENDING' AND NOT on_hold
         AND run_at >= CAST(:since AS TIMESTAMPTZ)
         AND run_at <= now() + CAST(:ahead_ms AS BIGINT) * INTERVAL '1 millisecond'@regions()
       ORDER BY run_at, execution_id LIMIT :limit FOR UPDATE SKIP LOCKED),
    promoted AS (
      UPDATE executions AS e
         SET status = 'QUEUED', run_at = GREATEST(e.run_at, now() + numbered.place * INTERVAL '1 microsecond'),
             expires_at = CASE WHEN e.attempt_count > 0 THEN e.expires_at
                               ELSE GREATEST(e.expires_at, now() + (e.expires_at - e.run_at)) END
        FROM (SELECT execution_id, row_number() OVER (ORDER BY run_at, execution_id) AS place FROM due) AS numbered
       WHERE e.execution_id = numbered.execution_id
         AND COALESCE(e.status = 'PENDING' AND NOT e.on_hold
                      AND e.run_at <= now() + CAST(:ahead_ms AS BIGINT) * INTERVAL '1 millisecond', false)
      RETURNING e.queue)
    SELECT counted.queue, counted.promoted,
           (SELECT CASE WHEN count(*) < CAST(:limit AS BIGINT) THEN now() ELSE max(due.run_at) END
              FROM due) AS seen_up_to,
           (SELECT job_id FROM jobs WHERE paused_at IS NOT NULL ORDER BY created_at, job_id LIMIT 1) AS a_paused_job
      FROM (SELECT 1 AS one) AS always
      LEFT JOIN (SELECT queue, count(*) AS promoted FROM promoted GROUP BY queue) AS counted ON true
    """,
)

# After a full scan, such an execution is locked by another transaction.
NOT_PROMOTED = statement(
    "executions.not_promoted",
    """
    SELECT execution_id FROM executions
     WHERE shard = :shard AND status = 'PENDING' AND NOT on_hold AND run_at <= now()@regions()
     ORDER BY run_at, execution_id LIMIT :limit
    """,
)


def not_promoted(database: Database, *, shard: int, limit: int) -> list[str]:
    """Return the first due executions of a shard that are still PENDING."""
    return [row.execution_id for row in database.fetch(NOT_PROMOTED, {"shard": shard, "limit": limit})]


class Promoted(NamedTuple):
    """Promoted executions by queue, the run_at up to which all were read, and whether any job is paused."""

    queues: Counter[str]
    seen_up_to: datetime
    has_paused_jobs: bool


def promote(database: Database, *, shard: int, ahead_ms: int, limit: int, since: datetime = EPOCH) -> Promoted:
    """Queue the PENDING executions of a shard that are due from `since` on and within `ahead_ms`."""
    rows = database.fetch(PROMOTE, {"shard": shard, "ahead_ms": ahead_ms, "limit": limit, "since": since})
    queues = Counter({row.queue: row.promoted for row in rows if row.queue is not None})
    return Promoted(queues, rows[0].seen_up_to, rows[0].a_paused_job is not None)
