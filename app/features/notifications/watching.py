"""Detector: opens and closes the alerts of rules by polling the database.

A lost worker, an open breaker, a late queue or an overdue schedule is an open alert of each matching rule: a row,
reported once when it is inserted and deleted when the condition ends. Alerts of failing jobs are opened by
`failures` and closed here when the job recovers. A poll is one transaction. Schedulers never poll at the same time:
a scheduler that finds the lock taken skips its poll.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from app.features.notifications import event_batches, facts
from app.features.notifications import store as notifications_store
from app.features.notifications.event_batches import OpenAlert
from app.features.notifications.failures import reports_streaks
from app.features.notifications.rules import Occurrence, Rule
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.sql import statement
from schema.states import JobStatus, NotificationEvent

_E = NotificationEvent
MAX_STREAKS = 500  # alerts of failing jobs that one poll checks
MAX_NOTED = 2_000  # alerts of an event that one poll checks
MAX_BEGUN = 5_000  # alerts of an event that one poll tries to insert
_WATCHED = (_E.WORKER_LOST, _E.BREAKER_OPENED, _E.SCHEDULE_OVERDUE, _E.QUEUE_LATE)

# The lock keeps polls from acting on outdated reads. The primary key of alerts ensures that each is reported once.
LOCK = statement(
    "notifications.lock_watch",
    """
    WITH mine AS MATERIALIZED (
      SELECT id FROM catalog_revision WHERE id = 'notifications' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
    SELECT now() AS now FROM mine
    """,
)
NOTED = statement(
    "notifications.noted_conditions",
    """
    SELECT rule, subject, details FROM notification_conditions
     WHERE event = :event AND (rule, subject) > (CAST(:rule AS TEXT), CAST(:subject AS TEXT))
     ORDER BY event, rule, subject LIMIT :limit
    """,
)
# The newest version of a job, and its newest completed execution if that is a success.
LATEST = statement(
    "notifications.latest_end",
    """
    WITH later AS (
      SELECT job_id, status FROM jobs WHERE first_version_id = :first
       ORDER BY first_version_id, version DESC LIMIT 1),
    newest AS (
      SELECT job_id, status FROM later
      UNION ALL SELECT job_id, status FROM jobs WHERE job_id = :first AND NOT EXISTS (SELECT 1 FROM later)),
    succeeded AS (
      SELECT created_at, execution_id, completed_at FROM executions
       WHERE job_id = (SELECT job_id FROM newest) AND status = 'SUCCESS' AND completed_at IS NOT NULL
       ORDER BY created_at DESC, execution_id DESC LIMIT 1),
    failed AS (
      SELECT created_at, execution_id FROM executions
       WHERE job_id = (SELECT job_id FROM newest) AND status = 'FAILED' AND completed_at IS NOT NULL
       ORDER BY created_at DESC, execution_id DESC LIMIT 1)
    SELECT newest.status, s.execution_id, s.completed_at
      FROM newest
      LEFT JOIN (SELECT execution_id, completed_at FROM succeeded
                  WHERE NOT EXISTS (SELECT 1 FROM failed AS f
                                     WHERE (f.created_at, f.execution_id)
                                           > (succeeded.created_at, succeeded.execution_id))) AS s ON true
    """,
)


@dataclass(frozen=True, slots=True)
class _DetectorCursor:
    """Position of the next poll of an event: checks resume after an alert, insertions resume at the rule `first`."""

    rule: str = ""
    subject: str = ""
    first: str = ""


@dataclass(slots=True)
class _Poll:
    """Changes that one poll found, and the cursors of the next poll."""

    opened: dict[OpenAlert, Occurrence] = field(default_factory=dict)
    closed: set[OpenAlert] = field(default_factory=set)
    cursors: dict[NotificationEvent, _DetectorCursor] = field(default_factory=dict)


class Detector:
    """Detector of one scheduler; checks a bounded number of alerts in each poll."""

    def __init__(self, database: Database, *, max_noted: int = MAX_NOTED, max_begun: int = MAX_BEGUN) -> None:
        self._database = database
        self._max_noted, self._max_begun = max_noted, max_begun
        self._cursors: Mapping[NotificationEvent, _DetectorCursor] = {}

    def poll(self) -> int:
        """Open and close alerts; return the number of events that rules report."""
        run = self._database.fetch
        if not notifications_store.read_all(run):
            return 0
        reported, self._cursors = self._database.transact_jointly(self._poll)
        return reported

    def _poll(self) -> tuple[int, Mapping[NotificationEvent, _DetectorCursor]]:
        run = self._database.fetch
        locked = run(LOCK)
        if not locked:
            return 0, self._cursors
        by_name, poll = notifications_store.read_each(run), _Poll()
        reported = self._close_recovered(by_name, poll)
        for event in _WATCHED:
            self._compare(event, by_name, poll, locked[0].now)
        fresh = event_batches.open_alerts(run, dict.fromkeys(poll.opened))
        event_batches.close_alerts(run, poll.closed)
        for alert in sorted(fresh):
            reported.setdefault(alert[1], []).append(poll.opened[alert])
        return event_batches.add_batches(run, reported), poll.cursors

    def _compare(
        self, event: NotificationEvent, by_name: Mapping[str, Rule | None], poll: _Poll, now: datetime
    ) -> None:
        """Find the alerts of an event to open, and the open alerts whose condition ended."""
        rules = [rule for rule in by_name.values() if rule is not None and rule.covers(event)]
        min_seconds = min((rule.late_seconds for rule in rules), default=0)
        found = facts.current_facts(self._database, event, now, min_seconds) if rules else []
        opened, first = _opened(rules, found, self._cursor(event).first, self._max_begun)
        poll.opened |= opened
        rows = self._next_alerts(event, self._max_noted, poll, first)
        known = {fact.key: fact for fact in found}
        if len(found) >= facts.MAX_FACTS:
            # The read was cut off: check the remaining open alerts by key.
            others = sorted({row.subject for row in rows} - known.keys())
            still = facts.still_current_facts(self._database, event, others, now, min_seconds)
            known |= {fact.key: fact for fact in still}
        poll.closed |= {(event, row.rule, row.subject) for row in rows if _is_closed(row, by_name, known)}

    def _next_alerts(self, event: NotificationEvent, most: int, poll: _Poll, first: str = "") -> Sequence[Row[Any]]:
        """Read the next open alerts of an event."""
        cursor = self._cursor(event)
        params = {"event": event.value, "rule": cursor.rule, "subject": cursor.subject, "limit": most}
        rows = self._database.fetch(NOTED, params)
        rule, subject = (rows[-1].rule, rows[-1].subject) if len(rows) == most else ("", "")
        poll.cursors[event] = _DetectorCursor(rule, subject, first)
        return rows

    def _cursor(self, event: NotificationEvent) -> _DetectorCursor:
        return self._cursors.get(event, _DetectorCursor())

    def _close_recovered(self, by_name: Mapping[str, Rule | None], poll: _Poll) -> dict[str, list[Occurrence]]:
        """Close the alerts of failing jobs that recovered or ended; return the recoveries by rule."""
        closed: dict[OpenAlert, Occurrence | None] = {}
        for row in self._next_alerts(_E.JOB_FAILING, MAX_STREAKS, poll):
            alert = _E.JOB_FAILING, row.rule, row.subject
            rule = by_name.get(row.rule)
            if rule is None and row.rule in by_name:
                continue
            found = self._database.fetch(LATEST, {"first": row.subject})
            if rule is None or not found:
                closed[alert] = None
            elif found[0].execution_id is not None:
                closed[alert] = _recovery(row, found[0].completed_at, found[0].execution_id)
            elif found[0].status == JobStatus.RETIRED or not _still_reports(rule, row):
                closed[alert] = None
        reported: dict[str, list[Occurrence]] = {}
        for alert in sorted(event_batches.close_alerts(self._database.fetch, closed)):
            occurrence = closed[alert]
            rule = by_name.get(alert[1])
            if occurrence is not None and rule is not None and rule.matches(occurrence):
                reported.setdefault(alert[1], []).append(occurrence)
        return reported


def _opened(
    rules: Sequence[Rule], found: Sequence[facts.Fact], first: str, most: int
) -> tuple[dict[OpenAlert, Occurrence], str]:
    """Return alerts to open, beginning with the rule `first`, and the first rule of the next poll."""
    opened: dict[OpenAlert, Occurrence] = {}
    ordered = sorted(rules, key=lambda rule: (rule.name < first, rule.name))
    for rule in ordered:
        if len(opened) >= most:
            return opened, rule.name
        opened |= {
            (fact.occurrence.event, rule.name, fact.key): fact.occurrence for fact in found if _is_current(rule, fact)
        }
    return opened, ""


def _is_current(rule: Rule, fact: facts.Fact) -> bool:
    return rule.matches(fact.occurrence) and fact.for_seconds >= _min_seconds(rule, fact.occurrence.event)


def _is_closed(noted: Row[Any], by_name: Mapping[str, Rule | None], known: Mapping[str, facts.Fact]) -> bool:
    """Return whether the condition of an alert ended; alerts of an unreadable rule are left to other processes."""
    rule, fact = by_name.get(noted.rule), known.get(noted.subject)
    if rule is None:
        return noted.rule not in by_name
    return fact is None or not _is_current(rule, fact)


def _min_seconds(rule: Rule, event: NotificationEvent) -> float:
    return rule.late_seconds if event in {_E.QUEUE_LATE, _E.SCHEDULE_OVERDUE} else 0.0


def _still_reports(rule: Rule, alert: Row[Any]) -> bool:
    """Return whether a rule, which may have changed since, still reports the job of an alert."""
    return reports_streaks(rule, _recovery(alert, EPOCH, None))


def _recovery(alert: Row[Any], at: datetime, execution_id: str | None) -> Occurrence:
    details = alert.details or {}
    return Occurrence(
        event=_E.JOB_RECOVERED,
        subject=details.get("subject", alert.subject),
        at=at,
        example=execution_id,
        endpoints=(details["endpoint"],) if "endpoint" in details else (),
        labels=details.get("labels", {}),
    )
