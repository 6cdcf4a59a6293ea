"""Facts: current lost workers, open breakers, late queues and overdue schedules, each kind by one bounded read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row

from app.features.notifications.rules import Occurrence
from app.features.queues import queue_statistics
from app.kernel.db import Database
from app.kernel.sql import statement
from schema.states import NotificationEvent

_E = NotificationEvent
MAX_FACTS = 500  # of each kind

_IS_LOST = """
    SELECT worker_id, host, queues, lease_expires_at FROM workers
     WHERE status = 'ALIVE' AND lease_expires_at <= now() AND lease_expires_at > now() - INTERVAL '1 hour'
    """
LOST = statement(
    "notifications.lost_workers", f"{_IS_LOST} ORDER BY lease_expires_at DESC, worker_id LIMIT {MAX_FACTS}"
)
STILL_LOST = statement("notifications.still_lost_workers", f"{_IS_LOST} AND worker_id = ANY (CAST(:keys AS TEXT[]))")
_IS_OPEN = "SELECT target, changed_at FROM breakers WHERE state IN ('open', 'half_open')"
OPEN = statement("notifications.open_breakers", f"{_IS_OPEN} ORDER BY changed_at DESC, target LIMIT {MAX_FACTS}")
STILL_OPEN = statement("notifications.still_open_breakers", f"{_IS_OPEN} AND target = ANY (CAST(:keys AS TEXT[]))")
ENDPOINTS = statement(
    "notifications.leading_endpoints",
    """
    SELECT target, endpoint FROM breaker_endpoints WHERE target = ANY (CAST(:targets AS TEXT[]))
     ORDER BY target, endpoint LIMIT 10000
    """,
)
_IS_OVERDUE = """
    SELECT job_id, first_version_id, name, endpoint, labels, cron_next_run_at FROM jobs
     WHERE cron_next_run_at IS NOT NULL
       AND cron_next_run_at < now() - CAST(:seconds AS BIGINT) * INTERVAL '1 second'
    """
OVERDUE = statement("notifications.overdue_jobs", f"{_IS_OVERDUE} ORDER BY cron_next_run_at, job_id LIMIT {MAX_FACTS}")
STILL_OVERDUE = statement("notifications.still_overdue_jobs", f"{_IS_OVERDUE} AND job_id = ANY (CAST(:keys AS TEXT[]))")


@dataclass(frozen=True, slots=True)
class Fact:
    """Condition that holds now, and its age; `key` is unique within its kind."""

    key: str
    occurrence: Occurrence
    for_seconds: float = 0.0


def current_facts(database: Database, event: NotificationEvent, now: datetime, seconds: int) -> list[Fact]:
    """Return up to MAX_FACTS facts of a kind, latest first; of schedules, the most overdue by at least `seconds`."""
    if event is _E.WORKER_LOST:
        return _lost(database.fetch(LOST))
    if event is _E.BREAKER_OPENED:
        return _open(database, database.fetch(OPEN))
    if event is _E.QUEUE_LATE:
        return late_queues(database, now)
    return _overdue(database.fetch(OVERDUE, {"seconds": seconds}), now)


def still_current_facts(
    database: Database, event: NotificationEvent, keys: Sequence[str], now: datetime, seconds: int
) -> list[Fact]:
    """Return the facts of `keys`, for kinds with more than MAX_FACTS facts; queues have no such bound."""
    found: list[Fact] = []
    for first in range(0, len(keys), MAX_FACTS):
        params = {"keys": keys[first : first + MAX_FACTS]}
        if event is _E.WORKER_LOST:
            found += _lost(database.fetch(STILL_LOST, params))
        elif event is _E.BREAKER_OPENED:
            found += _open(database, database.fetch(STILL_OPEN, params))
        elif event is _E.SCHEDULE_OVERDUE:
            found += _overdue(database.fetch(STILL_OVERDUE, params | {"seconds": seconds}), now)
    return found


def _lost(rows: Iterable[Row[Any]]) -> list[Fact]:
    return [Fact(row.worker_id, worker_lost(row)) for row in rows]


def worker_lost(row: Row[Any]) -> Occurrence:
    return Occurrence(
        event=_E.WORKER_LOST,
        subject=f"{row.worker_id} on {row.host}",
        at=row.lease_expires_at,
        example=row.worker_id,
        queues=tuple(row.queues or ()),
    )


def _open(database: Database, rows: Sequence[Row[Any]]) -> list[Fact]:
    leading = endpoints_by_target(database, [row.target for row in rows])
    return [Fact(row.target, breaker_opened(row.target, row.changed_at, leading)) for row in rows]


def endpoints_by_target(database: Database, targets: Sequence[str]) -> dict[str, list[str]]:
    """Return the endpoints that resolve to each target."""
    found: dict[str, list[str]] = {}
    for row in database.fetch(ENDPOINTS, {"targets": sorted(set(targets))}) if targets else ():
        found.setdefault(row.target, []).append(row.endpoint)
    return found


def breaker_opened(target: str, at: datetime, leading: Mapping[str, Sequence[str]]) -> Occurrence:
    return Occurrence(
        event=_E.BREAKER_OPENED, subject=target, at=at, example=target, endpoints=tuple(leading.get(target, ()))
    )


def late_queues(database: Database, now: datetime) -> list[Fact]:
    """Return the queues with due executions, each with the age of the oldest."""
    return [
        Fact(
            name,
            Occurrence(event=_E.QUEUE_LATE, subject=name, at=now, queues=(name,)),
            (now - since) / timedelta(seconds=1),
        )
        for name, since in queue_statistics.oldest_due(database).items()
    ]


def _overdue(rows: Iterable[Row[Any]], now: datetime) -> list[Fact]:
    return [
        Fact(
            row.job_id,
            Occurrence(
                event=_E.SCHEDULE_OVERDUE,
                subject=row.name or row.first_version_id or row.job_id,
                at=now,
                example=row.job_id,
                endpoints=(row.endpoint,),
                labels=row.labels or {},
            ),
            (now - row.cron_next_run_at) / timedelta(seconds=1),
        )
        for row in rows
    ]
