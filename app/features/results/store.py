"""Pruning of results: what was answered is deleted earlier than the executions, where their endpoints say so."""

from datetime import datetime

from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.sql import statement

BATCH = 100  # executions, with all attempts of each

_KEPT = "result_retention_ms IS NOT NULL AND result_pruned_at IS NULL AND completed_at IS NOT NULL"

# From one to the next by the index: there are a few, however many executions have each.
NEXT_RETENTION = statement(
    "results.next_retention",
    f"""
    SELECT result_retention_ms FROM executions
     WHERE shard = :shard AND {_KEPT} AND result_retention_ms > :after
     ORDER BY result_retention_ms LIMIT 1
    """,  # noqa: S608 - a constant of this module
)

# Begins where the batch before ended: what that changed still has entries in the index, and is passed over each time.
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

# One that was retried by hand meanwhile is not over, and keeps what it has until it is. For COALESCE see CLAIM.
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
    """Return the shortest retention above another that executions of a shard have results for, in milliseconds."""
    rows = database.fetch(NEXT_RETENTION, {"shard": shard, "after": after})
    return rows[0].result_retention_ms if rows else None


def expired(
    database: Database, *, shard: int, retention_ms: int, since: datetime = EPOCH, limit: int = BATCH
) -> tuple[list[str], datetime]:
    """Read the executions whose results of one retention are too old, and when the last of them ended."""
    params = {"shard": shard, "retention_ms": retention_ms, "since": since, "limit": limit}
    rows = database.fetch(EXPIRED, params)
    return [row.execution_id for row in rows], rows[-1].completed_at if rows else since


def prune(database: Database, executions: list[str]) -> int:
    """Delete the results of executions, and those of their attempts; returns how many had any."""
    (row,) = database.fetch(PRUNE, {"ids": sorted(executions)})
    done: int = row.executions
    return done
