"""Statements of expiry: read which rules make executions wait, and fail executions that wait behind them too long."""

from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Row

from app.kernel.db import Database
from app.kernel.db.paging import Position
from app.kernel.formats import EPOCH
from app.kernel.sql import hot_statement, statement
from app.queue.ending.execution_events import ChangeReason, StateChange, record
from app.queue.ending.outbox_rows import put_ends
from app.queue.executions.settlement import settle_jobs
from app.queue.executions.unlocked_rows import FREE_EXECUTIONS, FREE_JOBS
from schema.states import ExecutionStatus

# An open breaker that no process has probed for a minute makes nothing wait: nothing is due for it.
RULES = hot_statement(
    "executions.rules_that_make_wait",
    """
    SELECT name AS endpoint, CAST(NULL AS TEXT) AS queue FROM endpoints
     WHERE limits IS NOT NULL OR paused_at IS NOT NULL
    UNION ALL
    SELECT b.endpoint, CAST(NULL AS TEXT) FROM breaker_endpoints AS b JOIN breakers AS t ON t.target = b.target
     WHERE t.state <> 'closed' AND COALESCE(t.probe_until, t.open_until) > now() - INTERVAL '1 minute'
    UNION ALL
    SELECT CAST(NULL AS TEXT), queue FROM paused_queues
    """,
)
# A plain read: a scan that locks would hide rows from claims.
LATE = statement(
    "executions.late",
    """
    SELECT execution_id, job_id, status, expires_at,
           endpoint = ANY (CAST(:endpoints AS TEXT[])) OR queue = ANY (CAST(:queues AS TEXT[])) AS waits FROM executions
     WHERE shard = :shard AND expires_at IS NOT NULL AND status IN ('QUEUED', 'RETRYING')
       AND (expires_at, execution_id) > (CAST(:at AS TIMESTAMPTZ), :key) AND expires_at <= now()@regions()
     ORDER BY expires_at, execution_id LIMIT :limit
    """,
)
# Locked executions, and executions of locked jobs, are skipped: a wait for one row would delay all other rows. The
# next run reads them again. A changed `expires_at` shows that the execution was requested again since it was read.
EXPIRE = statement(
    "executions.expire",
    """
    WITH {free_executions},
    {free_jobs}
    UPDATE executions AS e SET status = 'FAILED', completed_at = now()
      FROM unnest(CAST(:ids AS TEXT[]), CAST(:jobs AS TEXT[]), CAST(:statuses AS TEXT[]),
                  CAST(:instants AS TIMESTAMPTZ[])) AS late (execution_id, job_id, status, expires_at)
      JOIN free ON free.execution_id = late.execution_id
      JOIN free_jobs ON free_jobs.job_id = late.job_id
     WHERE e.execution_id = ANY (CAST(:ids AS TEXT[])) AND e.execution_id = late.execution_id
       AND COALESCE(e.status = late.status AND e.expires_at = late.expires_at, false)
    RETURNING e.execution_id, late.status, e.attempt_count
    """,
    free_executions=FREE_EXECUTIONS,
    free_jobs=FREE_JOBS,
)
START = Position(EPOCH, "")


def waiting_rules(database: Database) -> dict[str, list[str]]:
    """Read the endpoints with limits, a pause or an open breaker, and the paused queues; empty if there are none."""
    rows = database.fetch(RULES)
    endpoints = {row.endpoint for row in rows if row.endpoint is not None}
    queues = [row.queue for row in rows if row.queue is not None]
    return {"endpoints": sorted(endpoints), "queues": sorted(queues)} if rows else {}


def expire(
    database: Database, rules: Mapping[str, Sequence[str]], *, shard: int, limit: int, after: Position = START
) -> tuple[Position | None, int, list[Row[Any]]]:
    """Fail the executions behind the rules among the next `limit` of a shard that are past their `expires_at`.

    Returns the position to read on from, None at the end, the number of failed executions, and the executions that were
    skipped because they or their jobs are locked, or have changed.
    """
    page = database.fetch(LATE, {**rules, "shard": shard, "limit": limit, "at": after.at, "key": after.key})
    late = sorted((row for row in page if row.waits), key=attrgetter("execution_id"))
    ended = database.transact(partial(_end, late)) if late else set()
    reached = Position(page[-1].expires_at, page[-1].execution_id) if len(page) == limit else None
    return reached, len(ended), [row for row in late if row.execution_id not in ended]


def _end(late: Sequence[Row[Any]], connection: Connection) -> set[str]:
    """Fail executions; return their ids."""
    params = {
        "ids": [row.execution_id for row in late],
        "jobs": [row.job_id for row in late],
        "statuses": [row.status for row in late],
        "instants": [row.expires_at for row in late],
        "count": len(late),
    }
    changes = StateChange.of_rows(connection.execute(EXPIRE, params), after=ExecutionStatus.FAILED)
    record(connection, changes, actor=None, reason=ChangeReason.EXPIRED)
    put_ends(connection, changes, ChangeReason.EXPIRED)
    settle_jobs(connection, [change.execution_id for change in changes])
    return {change.execution_id for change in changes}
