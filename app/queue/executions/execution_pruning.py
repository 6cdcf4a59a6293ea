"""Pruning: delete executions older than the retention in small batches, children first."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Row, TextClause

from app.kernel.db import Database
from app.kernel.db.deletion import MAX_NAMED, deletion
from app.kernel.db.paging import Position
from app.kernel.errors import UnavailableError
from app.kernel.sql import statement
from app.queue.ending.letters import kept_by_a_letter
from schema.states import Followed

LATE_MS = 24 * 3600 * 1000


def kept_by_a_workflow(executions: str) -> str:
    """Return the SQL condition that an execution belongs to a workflow that has not ended, whose nodes may read it."""
    return f"""CASE WHEN COALESCE({executions}.followed, 0) & {int(Followed.NODE)} = 0 THEN false
                    ELSE EXISTS (SELECT 1 FROM workflow_nodes AS n JOIN workflows AS w ON w.workflow_id = n.workflow_id
                                  WHERE n.execution_id = {executions}.execution_id AND w.ended_at IS NULL) END"""  # noqa: S608 - a part of a statement, composed at import


def _kept(executions: str) -> str:
    return f"({kept_by_a_letter(executions)} OR {kept_by_a_workflow(executions)})"


# The handlers of an end that waits in the outbox read the execution: without it, its dead letter and its callbacks
# would be lost. The outbox has no index by execution, and on CockroachDB a scan also reads the entries of handled rows.
# So it is read once for a shard, and executions that end later than this are left to the next run.
UNHANDLED = statement(
    "execution_ends.unhandled",
    """
    SELECT now() AS read_at, ARRAY(SELECT execution_id FROM execution_ends WHERE shard = :shard) AS executions
    """,
)
# Starts at the end of the previous batch, because the index still contains deleted entries. An execution with a dead
# letter stays until the retention after the letter's resolution, an execution of a workflow until the workflow ends.
EXPIRED = statement(
    "executions.expired",
    """
    WITH page AS MATERIALIZED (
      SELECT execution_id, completed_at, followed FROM executions
       WHERE shard = :shard AND completed_at IS NOT NULL
         AND (completed_at, execution_id) > (CAST(:since AS TIMESTAMPTZ), CAST(:after AS TEXT))
         AND completed_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'
         AND completed_at < CAST(:read_at AS TIMESTAMPTZ)
       ORDER BY completed_at, execution_id LIMIT :limit)
    SELECT page.execution_id, page.completed_at, {kept} AS is_kept,
           page.completed_at < now() - (CAST(:retention_ms AS BIGINT) + {late_ms}) * INTERVAL '1 millisecond' AS is_late
      FROM page
     ORDER BY page.completed_at, page.execution_id
    """,
    kept=_kept("page"),
    late_ms=LATE_MS,
)

_CHILDREN = {
    "execution_logs": ("log_id", "execution_id, logged_at, log_id"),
    "attempts": ("attempt_id", "execution_id, attempt_number"),
    "execution_events": ("event_id", "execution_id, occurred_at, event_id"),
}


def _children(lock: str) -> str:
    deletions = ",\n    ".join(
        f"""page_of_{table} AS MATERIALIZED (
      SELECT {key} FROM {table} WHERE execution_id = ANY (CAST(:ids AS TEXT[])) ORDER BY {order} LIMIT :limit {lock}),
    no_{table} AS (
      DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM page_of_{table}) RETURNING {key})"""  # noqa: S608 - as above
        for table, (key, order) in _CHILDREN.items()
    )
    seen = ", ".join(f"(SELECT count(*) FROM page_of_{table})" for table in _CHILDREN)  # noqa: S608 - as above
    return f"\n    WITH {deletions}\n    SELECT GREATEST({seen}) AS seen\n"


# Returns the largest number of children read in one table, not the number deleted: another scheduler may be faster.
PRUNE_CHILDREN = statement("executions.prune_children", _children(""))
PRUNE_FREE_CHILDREN = statement("executions.prune_free_children", _children("FOR UPDATE SKIP LOCKED"))


def _executions(locks: str = "", is_free: str = "true") -> str:
    is_old = "completed_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'"
    return f"""
    WITH {locks}gone AS (
      DELETE FROM executions AS e
       WHERE e.execution_id = ANY (CAST(:ids AS TEXT[])) AND e.{is_old}
         AND NOT {_kept("e")} AND {is_free}
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
    SELECT (SELECT count(*) FROM gone) AS executions, (SELECT count(*) FROM left_over) AS jobs,
           ARRAY(SELECT x.execution_id FROM executions AS x
                  WHERE x.execution_id = ANY (CAST(:ids AS TEXT[])) AND x.{is_old} AND NOT {_kept("x")}
                    AND x.execution_id NOT IN (SELECT execution_id FROM gone)
                  ORDER BY x.execution_id LIMIT {MAX_NAMED}) AS locked
    """  # noqa: S608 - constants of this package


# One statement: a crash between two would leave jobs without executions, which no later pruning finds.
PRUNE_EXECUTIONS = statement("executions.prune", _executions())
_IS_CHILDLESS = " AND ".join(
    f"NOT EXISTS (SELECT 1 FROM {table} AS c WHERE c.execution_id = e.execution_id)"  # noqa: S608 - as above
    for table in _CHILDREN
)
# Skips an execution with a locked row: its own row, a child, its dead letter or its one-shot job.
PRUNE_FREE_EXECUTIONS = statement(
    "executions.prune_free",
    _executions(
        """free AS MATERIALIZED (
      SELECT execution_id FROM executions
       WHERE execution_id = ANY (CAST(:ids AS TEXT[])) ORDER BY execution_id LIMIT :count FOR UPDATE SKIP LOCKED),
    free_letters AS MATERIALIZED (
      SELECT letter_id FROM dead_letters WHERE execution_id IN (SELECT execution_id FROM free)
       ORDER BY letter_id LIMIT :count FOR UPDATE SKIP LOCKED),
    free_jobs AS MATERIALIZED (
      SELECT job_id FROM jobs
       WHERE job_id IN (SELECT job_id FROM executions WHERE execution_id IN (SELECT execution_id FROM free))
         AND trigger_type IN ('IMMEDIATE', 'DELAYED')
       ORDER BY job_id LIMIT :count FOR UPDATE SKIP LOCKED),
    """,
        f"""e.execution_id IN (SELECT execution_id FROM free) AND {_IS_CHILDLESS}
         AND NOT EXISTS (SELECT 1 FROM dead_letters AS d
                          WHERE d.execution_id = e.execution_id
                            AND d.letter_id NOT IN (SELECT letter_id FROM free_letters))
         AND NOT EXISTS (SELECT 1 FROM jobs AS j
                          WHERE j.job_id = e.job_id AND j.trigger_type IN ('IMMEDIATE', 'DELAYED')
                            AND j.job_id NOT IN (SELECT job_id FROM free_jobs))""",  # noqa: S608 - as above
    ),
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
_IS_ENDED_VERSION = """j.trigger_type IN ('CRON', 'INTERVAL') AND j.status = 'RETIRED'
       AND j.retired_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'
       AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.job_id = j.job_id)
       AND NOT EXISTS (SELECT 1 FROM jobs AS v WHERE v.first_version_id = j.job_id)"""
PRUNE_VERSIONS = statement(
    "jobs.prune_versions",
    """
    WITH free AS MATERIALIZED (
      SELECT job_id FROM jobs
       WHERE job_id = ANY (CAST(:jobs AS TEXT[])) ORDER BY job_id LIMIT :count FOR UPDATE SKIP LOCKED),
    gone AS (
      DELETE FROM jobs AS j
       WHERE j.job_id = ANY (CAST(:jobs AS TEXT[])) AND j.job_id IN (SELECT job_id FROM free) AND {is_ended_version}
      RETURNING j.job_id)
    SELECT (SELECT count(*) FROM gone) AS deleted,
           ARRAY(SELECT j.job_id FROM jobs AS j
                  WHERE j.job_id = ANY (CAST(:jobs AS TEXT[])) AND j.job_id NOT IN (SELECT job_id FROM gone)
                    AND {is_ended_version}
                  ORDER BY j.job_id LIMIT {max_named}) AS locked
    """,
    is_ended_version=_IS_ENDED_VERSION,
    max_named=MAX_NAMED,
)

# A worker with claims keeps its row, which explains them; executions of a worker without a row are reclaimed too.
PRUNE_WORKERS = deletion(
    "workers.prune",
    "workers",
    ["worker_id"],
    """lease_expires_at < now() - INTERVAL '1 day'
       AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.worker_id = workers.worker_id AND e.status = 'RUNNING')""",
)


class ExpiredPage(NamedTuple):
    """Executions to delete; `reached` is the position of the last row read, None at the end.

    `are_late` if one of them ended more than LATE_MS before the retention.
    """

    reached: Position | None
    executions: list[str]
    are_late: bool


class UnhandledEnds(NamedTuple):
    """Executions of a shard whose ends wait in the outbox, and the time of the database at which they were read."""

    read_at: datetime
    executions: Collection[str]


def unhandled_ends(database: Database, shard: int) -> UnhandledEnds:
    """Read the executions of a shard whose ends wait in the outbox."""
    (row,) = database.fetch(UNHANDLED, {"shard": shard})
    return UnhandledEnds(row.read_at, frozenset(row.executions))


def expired(
    database: Database, unhandled: UnhandledEnds, *, shard: int, after: Position, retention_ms: int, limit: int
) -> ExpiredPage:
    """Read executions that ended before the retention, in order of completion, unless something keeps them."""
    params = {"shard": shard, "since": after.at, "after": after.key, "retention_ms": retention_ms, "limit": limit}
    rows = database.fetch(EXPIRED, params | {"read_at": unhandled.read_at})
    reached = Position(rows[-1].completed_at, rows[-1].execution_id) if len(rows) == limit else None
    free = [row for row in rows if not row.is_kept and row.execution_id not in unhandled.executions]
    return ExpiredPage(reached, [row.execution_id for row in free], any(row.is_late for row in free))


def prune_children(database: Database, executions: Sequence[str], *, limit: int) -> int:
    """Delete up to `limit` children of each kind; returns the largest number read, less than `limit` at the end.

    Skips locked children once another transaction holds a lock for 100 ms.
    """
    params = {"ids": sorted(executions), "limit": limit}
    return int(_unless_locked(database, PRUNE_CHILDREN, PRUNE_FREE_CHILDREN, params).seen)


def prune_executions(database: Database, executions: Sequence[str], *, retention_ms: int) -> Row[Any]:
    """Delete executions without children, and their one-shot jobs.

    Returns the number of deleted `executions` and `jobs`, and the ids of executions that were skipped because another
    transaction has `locked` a row of them.
    """
    params = {"ids": sorted(executions), "count": len(executions), "retention_ms": retention_ms}
    return _unless_locked(database, PRUNE_EXECUTIONS, PRUNE_FREE_EXECUTIONS, params)


def _unless_locked(database: Database, whole: TextClause, free: TextClause, params: Mapping[str, object]) -> Row[Any]:
    """Run the statement for all rows; if a lock is held for 100 ms, the statement for all rows that are not locked.

    Two schedulers delete the same rows: if both skipped, each could leave what the other has locked.
    """
    try:
        return database.fetch_unless_locked(whole, params)[0]
    except UnavailableError:
        return database.fetch(free, params)[0]


def prune_versions(
    database: Database, *, after: Position, retention_ms: int, limit: int
) -> tuple[Position | None, int, Sequence[str]]:
    """Delete ended repeating jobs without executions, old versions included, from the next `limit` repeating jobs.

    The first version stays while a later version exists. Returns the position of the last job read, None at the end,
    the number of deleted jobs, and the ids of locked jobs.
    """
    rows = database.fetch(REPEATING, {"after_at": after.at, "after_job": after.key, "limit": limit})
    if not rows:
        return None, 0, ()
    params = {"jobs": [row.job_id for row in rows], "count": len(rows), "retention_ms": retention_ms}
    (done,) = database.fetch(PRUNE_VERSIONS, params)
    return Position(rows[-1].created_at, rows[-1].job_id) if len(rows) == limit else None, done.deleted, done.locked
