"""Detector: opens and closes the alerts of rules by polling the database.

A lost worker, an open breaker, a failed workflow or a lateness is an open alert of each matching rule: a row,
reported once when it is inserted and deleted when the condition ends. Alerts of failing jobs are opened by
`handlers` and closed here when the job recovers. A poll is one transaction. Schedulers never poll at the same time:
a scheduler that finds the lock taken skips its poll.
"""

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from app.features.notifications import facts
from app.features.notifications import store as notifications_store
from app.features.notifications.rules import Occurrence, Rule
from app.features.notifications.store import OpenAlert
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.sql import statement
from app.scheduler.chore import Counts
from schema.states import JobStatus, NotificationEvent

_E = NotificationEvent
MAX_STREAKS = 500  # alerts of failing jobs that one poll checks
MAX_ALERTS = 5_000  # alerts of an event that one poll opens

# The lock keeps polls from acting on outdated reads. The primary key of alerts ensures that each is reported once.
LOCK = statement(
    "notifications.lock_watch",
    """
    WITH mine AS MATERIALIZED (
      SELECT id FROM catalog_revision WHERE id = 'notifications' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
    SELECT now() AS now FROM mine
    """,
)
KNOWN = statement(
    "notifications.open_alerts",
    """
    SELECT rule, subject FROM notification_conditions
     WHERE event = :event AND subject = ANY (CAST(:subjects AS TEXT[]))
    """,
)
FAILING = statement(
    "notifications.failing_jobs",
    """
    SELECT rule, subject, details FROM notification_conditions
     WHERE event = 'job.failing' AND (rule, subject) > (CAST(:rule AS TEXT), CAST(:subject AS TEXT))
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
CLOSE = statement(
    "notifications.end_conditions",
    """
    WITH free AS MATERIALIZED (
      SELECT rule, subject FROM notification_conditions
       WHERE event = :event
         AND (rule, subject) IN (SELECT u.rule, u.subject
                                   FROM unnest(CAST(:rules AS TEXT[]), CAST(:subjects AS TEXT[])) AS u (rule, subject))
       ORDER BY rule, subject LIMIT {max_alerts} FOR UPDATE SKIP LOCKED)
    DELETE FROM notification_conditions AS c USING free AS f
     WHERE c.event = :event AND c.rule = f.rule AND c.subject = f.subject
    RETURNING c.rule, c.subject
    """,
    max_alerts=MAX_ALERTS,
)

Reports = dict[str, list[Occurrence]]
"""Occurrences that a rule reports, by the name of the rule."""


class Detector:
    """Detector of one scheduler."""

    def __init__(self, database: Database, *, max_alerts: int = MAX_ALERTS, max_streaks: int = MAX_STREAKS) -> None:
        self._database = database
        self._max_alerts, self._max_streaks = max_alerts, max_streaks
        self._checked = ("", "")  # rule and subject of the last alert of a failing job that was checked

    def poll(self) -> Counts:
        """Open and close alerts; return the number of events that rules report."""
        database = self._database
        noted, self._checked = database.transact_jointly(partial(database.transact, self._poll))
        return Counts(noted=noted)

    def _poll(self, connection: Connection) -> tuple[int, tuple[str, str]]:
        locked = connection.execute(LOCK).first()
        rules = [] if locked is None else notifications_store.read_all(connection)
        if locked is None or not rules:
            return 0, self._checked
        reports: Reports = defaultdict(list)
        checked = self._close_recovered(connection, {rule.name: rule for rule in rules}, reports)
        ended: dict[str, Any] = {"rules": [rule.name for rule in rules], "limit": self._max_alerts}
        ended["seconds"] = [rule.late_seconds for rule in rules]
        for event in facts.ENDED:
            covering = [rule for rule in rules if rule.covers(event)]
            tolerances = [rule.late_seconds for rule in covering]
            found = facts.current_facts(self._database, event, locked.now, tolerances) if covering else []
            self._open(connection, event, covering, found, reports)
            ended["covers"] = [rule.covers(event) for rule in rules]
            late = {"keys": [fact.key for fact in found], "ages": [fact.for_seconds for fact in found]}
            connection.execute(facts.ENDED[event], ended | (late if event is _E.QUEUE_LATE else {}))
        return notifications_store.add_batches(connection, reports), checked

    def _open(
        self,
        connection: Connection,
        event: NotificationEvent,
        rules: Sequence[Rule],
        found: Sequence[facts.Fact],
        reports: Reports,
    ) -> None:
        """Open an alert of each rule that reports a fact; add the new alerts to the reports.

        Closes alerts of rules that changed and no longer report the fact. The next poll opens alerts beyond the bound.
        """
        rows = connection.execute(KNOWN, {"event": event.value, "subjects": [fact.key for fact in found]})
        known = {(row.rule, row.subject) for row in rows}
        matching, unmatched = dict[OpenAlert, Occurrence](), list[OpenAlert]()
        for rule, fact in itertools.product(rules, found):
            alert = rule.name, fact.key
            if fact.is_late(rule.late_seconds) and rule.matches(fact.occurrence):
                matching[alert] = fact.occurrence
            elif alert in known:
                unmatched.append(alert)
        _close(connection, event, unmatched)
        new = dict.fromkeys(sorted(matching.keys() - known)[: self._max_alerts])
        for name, key in notifications_store.open_alerts(connection, event, new):
            reports[name].append(matching[name, key])

    def _close_recovered(self, connection: Connection, rules: Mapping[str, Rule], reports: Reports) -> tuple[str, str]:
        """Close alerts of failing jobs that recovered or ended; return the last alert that was checked."""
        params = {"rule": self._checked[0], "subject": self._checked[1], "limit": self._max_streaks}
        rows = connection.execute(FAILING, params).all()
        closed: dict[tuple[str, str], Occurrence | None] = {}
        for row in rows:
            if row.rule not in rules:  # an unreadable rule is left to other processes
                continue
            latest = connection.execute(LATEST, {"first": row.subject}).first()
            if latest is not None and latest.execution_id is not None:
                closed[row.rule, row.subject] = _recovery(row, latest.completed_at, latest.execution_id)
            elif (
                latest is None
                or latest.status == JobStatus.RETIRED
                # The rule may have changed since the alert was opened.
                or not rules[row.rule].reports_streaks(_recovery(row, EPOCH, None))
            ):
                closed[row.rule, row.subject] = None
        for rule, subject in _close(connection, _E.JOB_FAILING, sorted(closed)):
            occurrence = closed[rule, subject]
            if occurrence is not None and rules[rule].matches(occurrence):
                reports[rule].append(occurrence)
        return (rows[-1].rule, rows[-1].subject) if len(rows) == self._max_streaks else ("", "")


def _close(connection: Connection, event: NotificationEvent, alerts: Sequence[OpenAlert]) -> list[OpenAlert]:
    """Close alerts; return the alerts that were open."""
    params = {"rules": [rule for rule, _ in alerts], "subjects": [subject for _, subject in alerts]}
    rows = connection.execute(CLOSE, params | {"event": event.value}) if alerts else ()
    return [(row.rule, row.subject) for row in rows]


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
