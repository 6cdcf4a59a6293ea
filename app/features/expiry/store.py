"""Expiry: end what has waited behind a limit, a pause or an open breaker for longer than `max_age_ms` allows.

A claim starts nothing that is too late, so this only tells earlier; it looks at what may wait at all.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row

from app.catalog.retry_policy import RetryPolicy
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.sql import statement
from app.queue.claiming.arms import CLAIMABLE
from app.queue.claiming.partition import Lane
from app.queue.ending import execution_events
from app.queue.ending.execution_events import Reason, StateChange
from app.queue.ending.outbox_rows import put_ends
from app.queue.executions.settlement import settle_jobs
from app.queue.executions.verdict import Tried, is_too_late
from schema.states import ExecutionStatus

# An age that no check has let through, of a policy that was edited manually, bounds nothing.
_MAX_AGE_MS = r"""CASE WHEN v.retry_policy->>'max_age_ms' ~ '^[0-9]{1,12}$'
                          THEN CAST(v.retry_policy->>'max_age_ms' AS BIGINT) END"""
_AGES = f"""
    SELECT v.endpoint, min({_MAX_AGE_MS}) AS max_age_ms
      FROM endpoint_versions AS v
     WHERE v.retry_policy->>'max_age_ms' ~ '^[0-9]{{1,12}}$'"""  # noqa: S608 - a constant of this module
SHORTEST_AGES = statement(
    "executions.shortest_ages",
    f"""{_AGES}
       AND v.endpoint IN (SELECT name FROM endpoints
                           WHERE limits IS NOT NULL OR paused_at IS NOT NULL
                          UNION ALL
                          SELECT b.endpoint FROM breaker_endpoints AS b JOIN breakers AS t ON t.target = b.target
                           WHERE t.state <> 'closed'
                             AND COALESCE(t.probe_until, t.open_until) > now() - INTERVAL '1 minute')
     GROUP BY v.endpoint
    """,  # noqa: S608 - as above
)
AGES_OF = statement(
    "executions.shortest_ages_of",
    f"{_AGES} AND v.endpoint = ANY (CAST(:endpoints AS TEXT[])) GROUP BY v.endpoint",
)
PAUSED_QUEUES = statement("executions.paused_queues", "SELECT queue FROM paused_queues")
# A plain read: a scan that locks would hide the lane from claims. Of what may wait longer, which may be very much, it
# only tells how far it came, and the ages that those versions allow.
WAITING = statement(
    "executions.waiting_too_long",
    f"""
    WITH page AS MATERIALIZED (
      SELECT execution_id, status, attempt_count, max_attempts, run_at, endpoint_version,
             now() - CASE WHEN attempt_count = 0 THEN run_at ELSE scheduled_at END AS age
        FROM executions
       WHERE queue = :queue AND shard = :shard AND endpoint = :endpoint AND limit_key = :limit_key
         AND priority = :priority AND {CLAIMABLE}
         AND (run_at, execution_id) > (:run_at, :execution_id)
         AND run_at < now() - CAST(:max_age_ms AS BIGINT) * INTERVAL '1 millisecond'
       ORDER BY run_at, execution_id LIMIT :limit),
    bounds AS MATERIALIZED (
      SELECT v.version, v.retry_policy, {_MAX_AGE_MS} AS max_age_ms
        FROM (SELECT DISTINCT endpoint_version FROM page) AS of_page
        JOIN endpoint_versions AS v ON v.endpoint = :endpoint AND v.version = of_page.endpoint_version),
    bound AS MATERIALIZED (
      SELECT page.*, bounds.retry_policy, bounds.max_age_ms,
             page.age > bounds.max_age_ms * INTERVAL '1 millisecond' AS is_over
        FROM page JOIN bounds ON bounds.version = page.endpoint_version
       WHERE bounds.max_age_ms IS NOT NULL)
    SELECT passed.seen, allowed.ages, last.run_at AS last_run_at, last.execution_id AS last_id, late.*
      FROM (SELECT count(*) AS seen FROM page) AS passed
     CROSS JOIN (SELECT array_agg(DISTINCT max_age_ms) AS ages FROM bound WHERE NOT is_over) AS allowed
      LEFT JOIN (SELECT run_at, execution_id FROM page
                  ORDER BY run_at DESC, execution_id DESC LIMIT 1) AS last ON true
      LEFT JOIN (SELECT execution_id, status, attempt_count, max_attempts, age, run_at, endpoint_version, retry_policy
                   FROM bound WHERE is_over) AS late ON true
     ORDER BY late.run_at, late.execution_id
    """,  # noqa: S608 - a constant of this package
)
# What somebody has locked is about to be claimed, cancelled or run. It would keep all others waiting, and is found
# again where it is not. The attempt is counted at the claim, so what was claimed and handed back meanwhile is another
# one's affair. And what is to run now, because somebody asked for it, has another instant.
EXPIRE = statement(
    "executions.expire",
    """
    WITH free AS MATERIALIZED (
      SELECT execution_id FROM executions WHERE execution_id = ANY (CAST(:ids AS TEXT[]))
       ORDER BY execution_id LIMIT :count FOR UPDATE SKIP LOCKED)
    UPDATE executions AS e SET status = 'FAILED', completed_at = now()
      FROM free
      JOIN unnest(CAST(:ids AS TEXT[]), CAST(:statuses AS TEXT[]), CAST(:attempts AS BIGINT[]),
                  CAST(:instants AS TIMESTAMPTZ[])) AS found (execution_id, status, attempt_count, run_at)
        ON found.execution_id = free.execution_id
     WHERE e.execution_id = ANY (CAST(:ids AS TEXT[])) AND e.execution_id = free.execution_id
       AND COALESCE(e.status = found.status AND e.status IN ('QUEUED', 'RETRYING')
                    AND e.attempt_count = found.attempt_count AND e.run_at = found.run_at, false)
    RETURNING e.execution_id, found.status, e.attempt_count
    """,
)


class Mark(NamedTuple):
    """The last execution of a lane that was looked at."""

    run_at: datetime
    execution_id: str


START = Mark(EPOCH, "")


@dataclass(frozen=True, slots=True)
class Expired:
    """What one page has done: how many it looked at, how many it ended, and how far it came.

    It `has_missed` what somebody else had locked, or has changed meanwhile. `ages_ms` are those that versions of the
    others allow.
    """

    seen: int
    ended: int
    has_missed: bool
    reached: Mark
    ages_ms: Collection[int]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where executions may wait for long: at endpoints that are `held`, in each queue, and at all in `paused` queues.

    Endpoints are held by rules, or by a target that is shut. Each has the least that a version of it allows, in
    milliseconds: who bounds no age is not among them.
    """

    held: Mapping[str, int]
    paused: frozenset[str]


def bounds(database: Database) -> Bounds:
    """Read them."""
    held = {row.endpoint: row.max_age_ms for row in database.fetch(SHORTEST_AGES)}
    return Bounds(held, frozenset(row.queue for row in database.fetch(PAUSED_QUEUES)))


def shortest_ages_ms(database: Database, endpoints: Sequence[str]) -> dict[str, int]:
    """Read the least that a version of each allows, of those that bound an age."""
    return {row.endpoint: row.max_age_ms for row in database.fetch(AGES_OF, {"endpoints": list(endpoints)})}


def expire(database: Database, queue: str, lane: Lane, *, max_age_ms: int, limit: int, after: Mark = START) -> Expired:
    """End what has waited for longer than its version allows, of the next `limit` of a lane behind a mark.

    It looks at those that were due `max_age_ms` ago.
    """
    params = {**lane._asdict(), **after._asdict(), "queue": queue, "max_age_ms": max_age_ms, "limit": limit}
    found = database.fetch(WAITING, params)
    policies: dict[int, RetryPolicy | None] = {}
    late = [row for row in found if row.execution_id is not None and _is_too_late(row, policies)]
    ended = database.transact(lambda connection: _end(connection, late)) if late else 0
    reached = Mark(found[0].last_run_at, found[0].last_id) if found[0].seen else after
    return Expired(found[0].seen, ended, ended < len(late), reached, found[0].ages or ())


def _end(connection: Connection, late: Sequence[Row[Any]]) -> int:
    params = {
        "ids": [row.execution_id for row in late],
        "statuses": [row.status for row in late],
        "attempts": [row.attempt_count for row in late],
        "instants": [row.run_at for row in late],
        "count": len(late),
    }
    rows = connection.execute(EXPIRE, params).all()
    changes = [
        StateChange(row.execution_id, ExecutionStatus(row.status), ExecutionStatus.FAILED, row.attempt_count)
        for row in rows
    ]
    execution_events.record(connection, changes, actor=None, reason=Reason.EXPIRED)
    put_ends(connection, changes, Reason.EXPIRED)
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
