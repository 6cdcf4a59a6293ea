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

# Ages that no check has let through, of policies that were edited manually, bound nothing.
AGES = statement(
    "executions.expiry_ages",
    r"""
    SELECT v.endpoint, v.max_age_ms, array_agg(v.version) AS versions
      FROM (SELECT endpoint, version, CASE WHEN retry_policy->>'max_age_ms' ~ '^[0-9]{1,12}$'
                                           THEN CAST(retry_policy->>'max_age_ms' AS BIGINT) END AS max_age_ms
              FROM endpoint_versions WHERE retry_policy->>'max_age_ms' ~ '^[0-9]{1,12}$') AS v
     WHERE v.endpoint IN (SELECT name FROM endpoints
                           WHERE limits IS NOT NULL OR paused_at IS NOT NULL
                          UNION ALL
                          SELECT b.endpoint FROM breaker_endpoints AS b JOIN breakers AS t ON t.target = b.target
                           WHERE t.state <> 'closed'
                             AND COALESCE(t.probe_until, t.open_until) > now() - INTERVAL '1 minute')
     GROUP BY v.endpoint, v.max_age_ms
    """,
)
# A plain read: a scan that locks would hide the lane from claims. Of what other versions have there, which may be very
# much, it only tells how far it came.
WAITING = statement(
    "executions.waiting_too_long",
    f"""
    WITH page AS MATERIALIZED (
      SELECT execution_id, status, attempt_count, max_attempts, run_at, scheduled_at, endpoint, endpoint_version
        FROM executions
       WHERE queue = :queue AND shard = :shard AND endpoint = :endpoint AND limit_key = :limit_key
         AND priority = :priority AND {CLAIMABLE}
         AND run_at >= CAST(:since AS TIMESTAMPTZ)
         AND run_at < now() - CAST(:max_age_ms AS BIGINT) * INTERVAL '1 millisecond'
       ORDER BY run_at, execution_id LIMIT :limit)
    SELECT passed.seen, passed.reached, late.execution_id, late.status, late.attempt_count, late.max_attempts, late.age,
           late.run_at, late.endpoint_version, late.retry_policy
      FROM (SELECT count(*) AS seen, max(run_at) AS reached FROM page) AS passed
      LEFT JOIN (SELECT e.*, v.retry_policy,
                        now() - CASE WHEN e.attempt_count = 0 THEN e.run_at ELSE e.scheduled_at END AS age
                   FROM page AS e
                   JOIN endpoint_versions AS v ON v.endpoint = e.endpoint AND v.version = e.endpoint_version
                  WHERE e.endpoint_version = ANY (CAST(:versions AS BIGINT[]))) AS late ON true
     ORDER BY late.run_at, late.execution_id
    """,  # noqa: S608 - a constant of this package
)
# Counted at the claim, so what was claimed and handed back meanwhile is another attempt's affair. And what is to run
# now, because somebody asked for it, has another instant.
EXPIRE = statement(
    "executions.expire",
    """
    UPDATE executions AS e SET status = 'FAILED', completed_at = now()
      FROM unnest(CAST(:ids AS TEXT[]), CAST(:statuses AS TEXT[]), CAST(:attempts AS BIGINT[]),
                  CAST(:instants AS TIMESTAMPTZ[])) AS found (execution_id, status, attempt_count, run_at)
     WHERE e.execution_id = ANY (CAST(:ids AS TEXT[])) AND e.execution_id = found.execution_id
       AND COALESCE(e.status = found.status AND e.status IN ('QUEUED', 'RETRYING')
                    AND e.attempt_count = found.attempt_count AND e.run_at = found.run_at, false)
    RETURNING e.execution_id, found.status, e.attempt_count
    """,
)


@dataclass(frozen=True, slots=True)
class Expired:
    """What one batch has done: how many it looked at, how many it ended, and how far it came."""

    seen: int
    ended: int
    reached: datetime


Ages = Mapping[int, Sequence[int]]
"""The ages that versions of an endpoint allow, in milliseconds, with the versions of each."""


def ages(database: Database) -> dict[str, Ages]:
    """Return the endpoints that executions may wait at for long and that bound this, with their ages."""
    found: dict[str, dict[int, Sequence[int]]] = {}
    for row in database.fetch(AGES):
        found.setdefault(row.endpoint, {})[row.max_age_ms] = row.versions
    return dict(found)


def overdue(
    database: Database, queue: str, shards: int, ages_ms: Mapping[str, Ages], stopping: Callable[[], bool]
) -> Iterator[tuple[Lane, int]]:
    """Find the lanes of a queue in which something waits for longer than an age of its endpoint, step by step."""
    sweep = Sweep(shards)
    while not sweep.is_over and not stopping():
        due, now = sweep.step(database, queue)
        for lane, run_at in due:
            waits_ms = (now - run_at) / timedelta(milliseconds=1)
            yield from ((lane, age_ms) for age_ms in ages_ms.get(lane.endpoint, ()) if age_ms < waits_ms)


def expire(
    database: Database,
    queue: str,
    lane: Lane,
    *,
    max_age_ms: int,
    versions: Sequence[int],
    limit: int,
    since: datetime = EPOCH,
) -> Expired:
    """End what has waited for longer than its version allows, of these versions and the next `limit` of a lane.

    Those were due `max_age_ms` ago, and not before `since`.
    """
    params = {**lane._asdict(), "queue": queue, "max_age_ms": max_age_ms, "limit": limit, "since": since}
    found = database.fetch(WAITING, params | {"versions": list(versions)})
    policies: dict[int, RetryPolicy | None] = {}
    late = [row for row in found if row.execution_id is not None and _is_too_late(row, policies)]
    ended = database.transact(lambda connection: _end(connection, late)) if late else 0
    return Expired(found[0].seen, ended, found[0].reached or since)


def _end(connection: Connection, late: Sequence[Row[Any]]) -> int:
    params = {
        "ids": [row.execution_id for row in late],
        "statuses": [row.status for row in late],
        "attempts": [row.attempt_count for row in late],
        "instants": [row.run_at for row in late],
    }
    rows = connection.execute(EXPIRE, params).all()
    changes = [
        StateChange(row.execution_id, ExecutionStatus(row.status), ExecutionStatus.FAILED, row.attempt_count)
        for row in rows
    ]
    events.record(connection, changes, actor=None, reason=Reason.EXPIRED)
    settle_jobs(connection, [row.execution_id for row in rows])
    return len(rows)


def _is_too_late(row: Row[Any], policies: dict[int, RetryPolicy | None]) -> bool:
    number = row.endpoint_version
    if number not in policies:
        policies[number] = _policy_of(row.retry_policy)
    policy = policies[number]
    tried = Tried(row.execution_id, row.attempt_count + 1, row.max_attempts, row.age / timedelta(milliseconds=1))
    return policy is not None and is_too_late(tried, policy, waits=True)


def _policy_of(stored: Any) -> RetryPolicy | None:
    try:
        return RetryPolicy.from_json(stored)
    except (AttributeError, TypeError, ValueError):
        return None  # a policy that was edited manually bounds nothing
