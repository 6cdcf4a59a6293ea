"""Pruning of results: outputs are deleted before their executions, by the retention of endpoints."""

from datetime import datetime

from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.sql import statement

BATCH = 100  # executions, with all attempts of each

_KEPT = "result_retention_ms IS NOT NULL AND result_pruned_at IS NULL AND completed_at IS NOT NULL"

# Steps through the distinct retentions by the index: there are few, however many executions have each.
NEXT_RETENTION = statement(
    "results.next_retention",
    f"""
    SELECT result_retention_ms FROM executions
     WHERE shard = :shard AND {_KEPT} AND result_retention_ms > :after
     ORDER BY result_retention_ms LIMIT 1
    """,  # noqa: S608 - a constant of this module
)

# Starts behind the previous batch, whose old index entries would otherwise be read again.
EXPIRED = statement(
    "results.expired",
    f"""
    SELECT execution_id, completed_at FROM executions
     WHERE shard = :shard AND {_KEPT} AND result_retention_ms = :retention_ms
       AND completed_at >= CAST(:since AS TIMESTAMPTZ)
       AND completed_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'
     ORDER BY completed_at, execution_id LIMIT :limit
    """,  # noqa: S608 - a constant of this module
)

# An execution that was retried manually in between keeps its results until it completes. For COALESCE see CLAIM.
PRUNE = statement(
    "results.prune",
    """
    WITH e AS (
      UPDATE executions SET output = NULL, result_pruned_at = now()
       WHERE execution_id = ANY (CAST(:ids AS TEXT[]))
         AND COALESCE(result_pruned_at IS NULL
                      AND completed_at < now() - result_retention_ms * INTERVAL '1 millisecond', false)
      RETURNING execution_id),
    a AS (
      UPDATE attempts SET output = NULL, error = error - CAST('body' AS TEXT)
       WHERE execution_id IN (SELECT execution_id FROM e)
      RETURNING attempt_id)
    SELECT count(*) AS executions FROM e
    """,
)


def next_retention(database: Database, *, shard: int, after: int) -> int | None:
    """Return the next longer retention in milliseconds for which executions of a shard have results."""
    rows = database.fetch(NEXT_RETENTION, {"shard": shard, "after": after})
    return rows[0].result_retention_ms if rows else None


def expired(
    database: Database, *, shard: int, retention_ms: int, since: datetime = EPOCH, limit: int = BATCH
) -> tuple[list[str], datetime]:
    """Read executions with expired results of one retention, and the completion time of the last one."""
    params = {"shard": shard, "retention_ms": retention_ms, "since": since, "limit": limit}
    rows = database.fetch(EXPIRED, params)
    return [row.execution_id for row in rows], rows[-1].completed_at if rows else since


def prune(database: Database, executions: list[str]) -> int:
    """Delete the results of executions and of their attempts; returns the number of executions changed."""
    (row,) = database.fetch(PRUNE, {"ids": sorted(executions)})
    done: int = row.executions
    return done
