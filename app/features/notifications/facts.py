"""Facts: current lost workers, open breakers, late queues and overdue schedules, each kind by one bounded read."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import inf
from typing import Any, NamedTuple

from sqlalchemy import Row

from app.features.notifications.rules import Occurrence, job_subject
from app.features.queues import store as queues_store
from app.kernel.db import Database
from app.kernel.sql import statement
from schema.states import NotificationEvent

_E = NotificationEvent
MAX_FACTS = 500  # of each kind

_IS_LOST = "status = 'ALIVE' AND lease_expires_at <= now() AND lease_expires_at > now() - INTERVAL '1 hour'"
_IS_OPEN = "state IN ('open', 'half_open')"
LOST = statement(
    "notifications.lost_workers",
    """
    SELECT worker_id, host, queues, lease_expires_at FROM workers WHERE {is_lost}
     ORDER BY lease_expires_at DESC, worker_id LIMIT {max_facts}
    """,
    is_lost=_IS_LOST,
    max_facts=MAX_FACTS,
)
OPEN = statement(
    "notifications.open_breakers",
    "SELECT target, changed_at FROM breakers WHERE {is_open} ORDER BY changed_at DESC, target LIMIT {max_facts}",
    is_open=_IS_OPEN,
    max_facts=MAX_FACTS,
)
ENDPOINTS = statement(
    "notifications.leading_endpoints",
    """
    SELECT target, endpoint FROM breaker_endpoints WHERE target = ANY (CAST(:targets AS TEXT[]))
     ORDER BY target, endpoint LIMIT 10000
    """,
)
OVERDUE = statement(
    "notifications.overdue_jobs",
    """
    SELECT job_id, first_version_id, name, endpoint, labels, cron_next_run_at FROM jobs
     WHERE cron_next_run_at IS NOT NULL
       AND cron_next_run_at < now() - CAST(:seconds AS BIGINT) * INTERVAL '1 second'
     ORDER BY cron_next_run_at, job_id LIMIT {max_facts}
    """,
    max_facts=MAX_FACTS,
)
_HOLDS = {
    _E.WORKER_LOST: f"SELECT 1 FROM workers WHERE worker_id = c.subject AND {_IS_LOST}",  # noqa: S608 - as above
    _E.BREAKER_OPENED: f"SELECT 1 FROM breakers WHERE target = c.subject AND {_IS_OPEN}",  # noqa: S608 - as above
    _E.SCHEDULE_OVERDUE: """
        SELECT 1 FROM jobs
         WHERE job_id = c.subject AND cron_next_run_at < now() - u.seconds * INTERVAL '1 second'""",
    _E.QUEUE_LATE: """
        SELECT 1 FROM unnest(CAST(:keys AS TEXT[]), CAST(:ages AS DOUBLE PRECISION[])) AS q (name, age)
         WHERE q.name = c.subject AND q.age >= u.seconds""",
}
# Deletes alerts by key, however many facts there are; `u` has the rules that this process can read,
# and whether they still report the event.
ENDED = {
    event: statement(
        f"notifications.ended_{event.value.replace('.', '_')}",
        """
        WITH ended AS MATERIALIZED (
          SELECT c.rule, c.subject FROM notification_conditions AS c
            JOIN unnest(CAST(:rules AS TEXT[]), CAST(:seconds AS BIGINT[]), CAST(:covers AS BOOLEAN[]))
              AS u (rule, seconds, covers) ON u.rule = c.rule
           WHERE c.event = '{event}' AND (NOT u.covers OR NOT EXISTS ({holds}))
           ORDER BY c.rule, c.subject LIMIT :limit FOR UPDATE OF c SKIP LOCKED)
        DELETE FROM notification_conditions AS c USING ended AS e
         WHERE c.event = '{event}' AND c.rule = e.rule AND c.subject = e.subject
        """,
        event=event.value,
        holds=holds,
    )
    for event, holds in _HOLDS.items()
}


class Fact(NamedTuple):
    """Condition that holds now; `key` is unique within its kind, `for_seconds` its age if rules tolerate a delay."""

    key: str
    occurrence: Occurrence
    for_seconds: float = inf


def current_facts(database: Database, event: NotificationEvent, now: datetime, seconds: int) -> list[Fact]:
    """Return up to MAX_FACTS facts of a kind, latest first; of schedules, the most overdue by at least `seconds`."""
    if event is _E.WORKER_LOST:
        return [Fact(row.worker_id, worker_lost(row)) for row in database.fetch(LOST)]
    if event is _E.BREAKER_OPENED:
        rows = database.fetch(OPEN)
        endpoints = endpoints_by_target(database, (row.target for row in rows))
        return [Fact(row.target, breaker_opened(row.target, row.changed_at, endpoints)) for row in rows]
    if event is _E.QUEUE_LATE:
        return [
            Fact(name, Occurrence(event=event, subject=name, at=now, queues=(name,)), (now - since).total_seconds())
            for name, since in queues_store.oldest_due(database).items()
        ]
    rows = database.fetch(OVERDUE, {"seconds": seconds})
    return [Fact(row.job_id, _overdue(row, now), (now - row.cron_next_run_at).total_seconds()) for row in rows]


def worker_lost(row: Row[Any]) -> Occurrence:
    return Occurrence(
        event=_E.WORKER_LOST,
        subject=f"{row.worker_id} on {row.host}",
        at=row.lease_expires_at,
        example=row.worker_id,
        queues=tuple(row.queues or ()),
    )


def endpoints_by_target(database: Database, targets: Iterable[str]) -> dict[str, list[str]]:
    """Return the endpoints that resolve to each target."""
    found: dict[str, list[str]] = {}
    for row in database.fetch(ENDPOINTS, {"targets": sorted(set(targets))}):
        found.setdefault(row.target, []).append(row.endpoint)
    return found


def breaker_opened(target: str, at: datetime, endpoints: Mapping[str, Sequence[str]]) -> Occurrence:
    return Occurrence(
        event=_E.BREAKER_OPENED, subject=target, at=at, example=target, endpoints=tuple(endpoints.get(target, ()))
    )


def _overdue(row: Row[Any], now: datetime) -> Occurrence:
    return Occurrence(
        event=_E.SCHEDULE_OVERDUE,
        subject=job_subject(row),
        at=now,
        example=row.job_id,
        endpoints=(row.endpoint,),
        labels=row.labels or {},
    )
