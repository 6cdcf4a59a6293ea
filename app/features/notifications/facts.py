"""Facts: current lost workers, open breakers, lateness and failed workflows, each kind by one bounded read."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from math import inf
from typing import Any, NamedTuple

from sqlalchemy import Row

from app.features.notifications.rules import Occurrence, job_subject
from app.features.queues import store as queues_store
from app.kernel.db import Database
from app.kernel.sql import statement
from schema.states import NotificationEvent
from schema.tables.workflows import FAILED_WORKFLOW

_E = NotificationEvent
MAX_FACTS = 500  # of each kind

_IS_LOST = "status = 'ALIVE' AND lease_expires_at <= now() AND lease_expires_at > now() - INTERVAL '1 hour'"
_SINCE = "now() - INTERVAL '1 hour'"
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
FAILED = statement(
    "notifications.failed_workflows",
    """
    SELECT workflow_id, name, labels, ended_at FROM workflows WHERE {failed_workflow} AND ended_at > {since}
     ORDER BY ended_at DESC, workflow_id DESC LIMIT {max_facts}
    """,
    failed_workflow=FAILED_WORKFLOW,
    since=_SINCE,
    max_facts=MAX_FACTS,
)
# Not in the first half of its time, so that a workflow with a short deadline is not late from the beginning on.
NEAR = statement(
    "notifications.late_workflows",
    """
    SELECT workflow_id, name, labels,
           CAST(EXTRACT(EPOCH FROM (deadline_at - now())) AS DOUBLE PRECISION) AS left_seconds
      FROM workflows
     WHERE deadline_at IS NOT NULL AND ended_at IS NULL
       AND deadline_at <= now() + CAST(:seconds AS BIGINT) * INTERVAL '1 second'
       AND now() >= created_at + (deadline_at - created_at) / 2
     ORDER BY deadline_at, workflow_id LIMIT {max_facts}
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
    _E.WORKFLOW_FAILED: f"""
        SELECT 1 FROM workflows WHERE workflow_id = c.subject AND {FAILED_WORKFLOW} AND ended_at > {_SINCE}""",  # noqa: S608 - as above
    _E.WORKFLOW_LATE: """
        SELECT 1 FROM workflows
         WHERE workflow_id = c.subject AND ended_at IS NULL
           AND deadline_at <= now() + u.seconds * INTERVAL '1 second'""",
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
    """Condition that holds now; `key` is unique within its kind.

    `for_seconds` is its age if rules tolerate a delay, `left_seconds` the time left if rules report it in advance.
    """

    key: str
    occurrence: Occurrence
    for_seconds: float = inf
    left_seconds: float = 0.0

    def is_late(self, late_seconds: int) -> bool:
        """Return whether a rule with a tolerance reports the condition."""
        return self.left_seconds <= late_seconds <= self.for_seconds


def current_facts(
    database: Database, event: NotificationEvent, now: datetime, tolerances: Collection[int]
) -> list[Fact]:
    """Return up to MAX_FACTS facts of a kind, latest first; schedules and workflows by the tolerances of rules."""
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
    if event is _E.WORKFLOW_FAILED:
        return [Fact(row.workflow_id, workflow_failed(row)) for row in database.fetch(FAILED)]
    if event is _E.WORKFLOW_LATE:
        rows = database.fetch(NEAR, {"seconds": max(tolerances)})
        return [Fact(row.workflow_id, _of_workflow(event, row, now), left_seconds=row.left_seconds) for row in rows]
    rows = database.fetch(OVERDUE, {"seconds": min(tolerances)})
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


def workflow_failed(row: Row[Any]) -> Occurrence:
    return _of_workflow(_E.WORKFLOW_FAILED, row, row.ended_at)


def _of_workflow(event: NotificationEvent, row: Row[Any], at: datetime) -> Occurrence:
    return Occurrence(event=event, subject=row.name, at=at, example=row.workflow_id, labels=row.labels or {})


def _overdue(row: Row[Any], now: datetime) -> Occurrence:
    return Occurrence(
        event=_E.SCHEDULE_OVERDUE,
        subject=job_subject(row),
        at=now,
        example=row.job_id,
        endpoints=(row.endpoint,),
        labels=row.labels or {},
    )
