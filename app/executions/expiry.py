"""Expiry: end what has waited behind a limit, a pause or an open breaker for longer than `max_age_ms` allows.

A claim starts nothing that is too late, so this only tells earlier; it looks at endpoints that may wait at all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row

from app.catalog.retry_policy import RetryPolicy
from app.db import Database
from app.executions import events
from app.executions.claiming.arms import CLAIMABLE
from app.executions.claiming.lane import Lane
from app.executions.claiming.sweep import Sweep
from app.executions.events import Reason, StateChange
from app.executions.settlement import settle_jobs
from app.executions.verdict import Tried, is_too_late
from app.formats import EPOCH
from app.sql import statement
from schema.states import ExecutionStatus

# The shortest age of all versions: what it finds is judged by its own version. Ages that no check has let through, of
# policies that were edited manually, bound nothing.
AGES = statement(
    "executions.expiry_ages",
    r"""
    SELECT v.endpoint, min(CASE WHEN v.retry_policy->>'max_age_ms' ~ '^[0-9]{1,12}$'
                                THEN CAST(v.retry_policy->>'max_age_ms' AS BIGINT) END) AS max_age_ms
      FROM endpoint_versions AS v
     WHERE v.retry_policy->>'max_age_ms' ~ '^[0-9]{1,12}$'
       AND v.endpoint IN (SELECT name FROM endpoints
                           WHERE limits IS NOT NULL OR paused_at IS NOT NULL
                          UNION ALL
                          SELECT b.endpoint FROM breaker_endpoints AS b JOIN breakers AS t ON t.target = b.target
                           WHERE t.state <> 'closed'
                             AND COALESCE(t.probe_until, t.open_until) > now() - INTERVAL '1 minute')
     GROUP BY v.endpoint
    """,
)
# A plain read: a scan that locks would hide the lane from claims.
WAITING = statement(
    "executions.waiting_too_long",
    f"""
    SELECT e.execution_id, e.status, e.attempt_count, e.max_attempts, e.run_at,
           now() - CASE WHEN e.attempt_count = 0 THEN e.run_at ELSE e.scheduled_at END AS age,
           v.retry_policy
      FROM (SELECT * FROM executions
             WHERE queue = :queue AND shard = :shard AND endpoint = :endpoint AND limit_key = :limit_key
               AND priority = :priority AND {CLAIMABLE}
               AND run_at >= CAST(:since AS TIMESTAMPTZ)
               AND run_at < now() - CAST(:max_age_ms AS BIGINT) * INTERVAL '1 millisecond'
             ORDER BY run_at, execution_id LIMIT :limit) AS e
      JOIN endpoint_versions AS v ON v.endpoint = e.endpoint AND v.version = e.endpoint_version
     ORDER BY e.run_at, e.execution_id
    """,  # noqa: S608 - a constant of this package
)
# Counted at the claim, so what was claimed and handed back meanwhile is another attempt's affair.
EXPIRE = statement(
    "executions.expire",
    """
    UPDATE executions AS e SET status = 'FAILED', completed_at = now()
      FROM unnest(CAST(:ids AS TEXT[]), CAST(:statuses AS TEXT[]), CAST(:attempts AS BIGINT[]))
           AS found (execution_id, status, attempt_count)
     WHERE e.execution_id = ANY (CAST(:ids AS TEXT[])) AND e.execution_id = found.execution_id
       AND COALESCE(e.status = found.status AND e.status IN ('QUEUED', 'RETRYING')
                    AND e.attempt_count = found.attempt_count, false)
    RETURNING e.execution_id, found.status, e.attempt_count
    """,
)


@dataclass(frozen=True, slots=True)
class Expired:
    """What one batch has done: how many it looked at, how many it ended, and how far it came."""

    seen: int
    ended: int
    reached: datetime


def ages(database: Database) -> dict[str, int]:
    """Return the endpoints that executions may wait at for long and that bound this, with the shortest bound in ms."""
    return {row.endpoint: row.max_age_ms for row in database.fetch(AGES)}


def overdue(
    database: Database, queue: str, shards: int, ages_ms: Mapping[str, int], stopping: Callable[[], bool]
) -> Iterator[Lane]:
    """Find the lanes of a queue in which something waits for longer than its endpoint allows, step by step."""
    sweep = Sweep(shards)
    while not sweep.is_over and not stopping():
        due, now = sweep.step(database, queue)
        yield from (lane for lane, run_at in due if _is_overdue(ages_ms.get(lane.endpoint), run_at, now))


def expire(
    database: Database, queue: str, lane: Lane, *, max_age_ms: int, limit: int, since: datetime = EPOCH
) -> Expired:
    """End those of the next `limit` executions of a lane that have waited for longer than their version allows.

    Those were due `max_age_ms` ago, and not before `since`.
    """
    params = {**lane._asdict(), "queue": queue, "max_age_ms": max_age_ms, "limit": limit, "since": since}
    found = database.fetch(WAITING, params)
    late = [row for row in found if _is_too_late(row)]
    ended = database.transact(lambda connection: _end(connection, late)) if late else 0
    return Expired(len(found), ended, found[-1].run_at if found else since)


def _end(connection: Connection, late: Sequence[Row[Any]]) -> int:
    params = {
        "ids": [row.execution_id for row in late],
        "statuses": [row.status for row in late],
        "attempts": [row.attempt_count for row in late],
    }
    rows = connection.execute(EXPIRE, params).all()
    changes = [
        StateChange(row.execution_id, ExecutionStatus(row.status), ExecutionStatus.FAILED, row.attempt_count)
        for row in rows
    ]
    events.record(connection, changes, actor=None, reason=Reason.EXPIRED)
    settle_jobs(connection, [row.execution_id for row in rows])
    return len(rows)


def _is_overdue(max_age_ms: int | None, run_at: datetime, now: datetime) -> bool:
    return max_age_ms is not None and now - run_at > timedelta(milliseconds=max_age_ms)


def _is_too_late(row: Row[Any]) -> bool:
    age_ms = row.age / timedelta(milliseconds=1)
    tried = Tried(row.execution_id, row.attempt_count + 1, row.max_attempts, age_ms)
    try:
        return is_too_late(tried, RetryPolicy.from_json(row.retry_policy), waits=True)
    except (AttributeError, TypeError, ValueError):
        return False  # a policy that was edited manually bounds nothing
