"""Promotion: queue delayed executions shortly before they are due."""

from collections import Counter

from app.db import Database
from app.sql import statement

# run_at stays: workers claim what is due within 50 ms, and start it at its instant.
PROMOTE = statement(
    "executions.promote",
    """
    WITH due AS MATERIALIZED (
      SELECT execution_id FROM executions
       WHERE shard = :shard AND status = 'PENDING' AND NOT on_hold
         AND run_at <= now() + CAST(:ahead_ms AS BIGINT) * INTERVAL '1 millisecond'
       ORDER BY run_at, execution_id LIMIT :limit FOR UPDATE SKIP LOCKED),
    promoted AS (
      UPDATE executions AS e SET status = 'QUEUED'
        FROM due
       WHERE e.execution_id = due.execution_id AND e.status = 'PENDING' AND NOT e.on_hold
         AND e.run_at <= now() + CAST(:ahead_ms AS BIGINT) * INTERVAL '1 millisecond'
      RETURNING e.queue)
    SELECT queue, count(*) AS promoted FROM promoted GROUP BY queue
    """,
)


def promote(database: Database, *, shard: int, ahead_ms: int, limit: int) -> Counter[str]:
    """Queue the PENDING executions of a shard that are due within `ahead_ms`; returns how many of each queue."""
    rows = database.fetch(PROMOTE, {"shard": shard, "ahead_ms": ahead_ms, "limit": limit})
    return Counter({row.queue: row.promoted for row in rows})
