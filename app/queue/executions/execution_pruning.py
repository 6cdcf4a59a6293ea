"""Pruning: delete executions older than the retention in small batches, children first."""

from collections.abc import Sequence

from app.kernel.db import Database
from app.kernel.db.paging import Position
from app.kernel.sql import statement
from app.queue.ending.letters import kept_by_a_letter

# Starts at the end of the previous batch, because the index still contains deleted entries. An execution with a dead
# letter stays until the retention after the letter's resolution.
EXPIRED = statement(
    "executions.expired",
    f"""
    WITH page AS MATERIALIZED (
      SELECT execution_id, completed_at FROM executions
       WHERE shard = :shard AND completed_at IS NOT NULL
         AND (completed_at, execution_id) > (CAST(:since AS TIMESTAMPTZ), CAST(:after AS TEXT))
         AND completed_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'
       ORDER BY completed_at, execution_id LIMIT :limit)
    SELECT page.execution_id, page.completed_at, {kept_by_a_letter("page")} AS is_kept FROM page
     ORDER BY page.completed_at, page.execution_id
    """,  # noqa: S608 - constants of this package
)

# Returns the largest number of children read in one table, not the number deleted: another scheduler may be faster.
PRUNE_CHILDREN = statement(
    "executions.prune_children",
    """
    WITH logs AS MATERIALIZED (
      SELECT log_id FROM execution_logs WHERE execution_id = ANY (CAST(:ids AS TEXT[]))
       ORDER BY execution_id, logged_at, log_id LIMIT :limit),
    tried AS MATERIALIZED (
      SELECT attempt_id FROM attempts WHERE execution_id = ANY (CAST(:ids AS TEXT[]))
       ORDER BY execution_id, attempt_number LIMIT :limit),
    events AS MATERIALIZED (
      SELECT event_id FROM execution_events WHERE execution_id = ANY (CAST(:ids AS TEXT[]))
       ORDER BY execution_id, occurred_at, event_id LIMIT :limit),
    no_logs AS (DELETE FROM execution_logs WHERE log_id IN (SELECT log_id FROM logs) RETURNING log_id),
    none_tried AS (DELETE FROM attempts WHERE attempt_id IN (SELECT attempt_id FROM tried) RETURNING attempt_id),
    no_events AS (DELETE FROM execution_events WHERE event_id IN (SELECT event_id FROM events) RETURNING event_id)
    SELECT GREATEST((SELECT count(*) FROM logs), (SELECT count(*) FROM tried), (SELECT count(*) FROM events)) AS seen
    """,
)

# One statement: a crash between two would leave jobs without executions, which no later pruning finds.
PRUNE_EXECUTIONS = statement(
    "executions.prune",
    f"""
    WITH gone AS (
      DELETE FROM executions AS e
       WHERE e.execution_id = ANY (CAST(:ids AS TEXT[]))
         AND e.completed_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'
         AND NOT {kept_by_a_letter("e")}
      RETURNING e.execution_id, e.job_id),
    answered AS (
      DELETE FROM dead_letters
       WHERE execution_id = ANY (CAST(:ids AS TEXT[])) AND execution_id IN (SELECT execution_id FROM gone)
      RETURNING letter_id),
    left_over AS (
      DELETE FROM jobs AS j
       WHERE j.job_id IN (SELECT job_id FROM gone)
         AND j.status = 'RETIRED' AND j.trigger_type IN ('IMMEDIATE', 'DELAYED')
         AND NOT EXISTS (SELECT 1 FROM executions AS e
                          WHERE e.job_id = j.job_id AND e.execution_id NOT IN (SELECT execution_id FROM gone))
      RETURNING j.job_id)
    SELECT (SELECT count(*) FROM gone) AS executions, (SELECT count(*) FROM left_over) AS jobs
    """,  # noqa: S608 - constants of this package
)

REPEATING = statement(
    "jobs.repeating",
    """
    SELECT created_at, job_id FROM jobs
     WHERE trigger_type IN ('CRON', 'INTERVAL')
       AND (created_at, job_id) > (CAST(:after_at AS TIMESTAMPTZ), CAST(:after_job AS TEXT))
     ORDER BY created_at, job_id LIMIT :limit
    """,
)
# Ended repeating jobs and their old versions. The first version holds the idempotency key and is referenced by the
# later versions, so it is deleted last.
PRUNE_VERSIONS = statement(
    "jobs.prune_versions",
    """
    DELETE FROM jobs AS j
     WHERE j.job_id = ANY (CAST(:jobs AS TEXT[]))
       AND j.trigger_type IN ('CRON', 'INTERVAL') AND j.status = 'RETIRED'
       AND j.retired_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'
       AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.job_id = j.job_id)
       AND NOT EXISTS (SELECT 1 FROM jobs AS v WHERE v.first_version_id = j.job_id)
    RETURNING j.job_id
    """,
)

# A worker with claims keeps its row, which explains them; executions of a worker without a row are reclaimed too.
PRUNE_WORKERS = statement(
    "workers.prune",
    """
    WITH page AS MATERIALIZED (
      SELECT w.worker_id FROM workers AS w
       WHERE w.lease_expires_at < now() - INTERVAL '1 day'
         AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.worker_id = w.worker_id AND e.status = 'RUNNING')
       ORDER BY w.worker_id LIMIT :limit)
    DELETE FROM workers
     WHERE worker_id IN (SELECT worker_id FROM page) AND lease_expires_at < now() - INTERVAL '1 day'
    RETURNING worker_id
    """,
)


def expired(
    database: Database, *, shard: int, after: Position, retention_ms: int, limit: int
) -> tuple[Position | None, list[str]]:
    """Read executions that ended before the retention, in order of completion, unless a dead letter keeps them.

    Returns the position of the last row read, None at the end, and the ids of the executions.
    """
    params = {"shard": shard, "since": after.at, "after": after.key, "retention_ms": retention_ms, "limit": limit}
    rows = database.fetch(EXPIRED, params)
    reached = Position(rows[-1].completed_at, rows[-1].execution_id) if len(rows) == limit else None
    return reached, [row.execution_id for row in rows if not row.is_kept]


def prune_children(database: Database, executions: Sequence[str], *, limit: int) -> int:
    """Delete up to `limit` children of each kind; returns the largest number read, less than `limit` at the end."""
    return int(database.fetch(PRUNE_CHILDREN, {"ids": sorted(executions), "limit": limit})[0].seen)


def prune_executions(database: Database, executions: Sequence[str], *, retention_ms: int) -> dict[str, int]:
    """Delete executions without children, and their one-shot jobs; returns the number of `executions` and `jobs`."""
    (row,) = database.fetch(PRUNE_EXECUTIONS, {"ids": sorted(executions), "retention_ms": retention_ms})
    return row._asdict()


def prune_versions(
    database: Database, *, after: Position, retention_ms: int, limit: int
) -> tuple[Position | None, int]:
    """Delete ended repeating jobs without executions, old versions included, from the next `limit` repeating jobs.

    The first version stays while a later version exists. Returns the position of the last job read, None at the end,
    and the number deleted.
    """
    rows = database.fetch(REPEATING, {"after_at": after.at, "after_job": after.key, "limit": limit})
    params = {"jobs": [row.job_id for row in rows], "retention_ms": retention_ms}
    deleted = len(database.fetch(PRUNE_VERSIONS, params)) if rows else 0
    return Position(rows[-1].created_at, rows[-1].job_id) if len(rows) == limit else None, deleted


def prune_workers(database: Database, *, limit: int) -> int:
    """Delete rows of workers that have been dead for a day and have no claims; returns the number deleted."""
    return len(database.fetch(PRUNE_WORKERS, {"limit": limit}))
