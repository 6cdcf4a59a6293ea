"""Handler: stores event batches of failed executions, and opens alerts of repeating jobs that keep failing.

Recovery is not detected here, because most successes write no completion event. A scheduler polls the jobs with an
open alert instead (app.features.notifications.watching).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from app.features.notifications import store as notifications_store
from app.features.notifications.metrics import NOTIFICATION_EVENTS, NOTIFICATIONS_FAILED
from app.features.notifications.rules import Occurrence, Rule, execution_failed, job_subject
from app.kernel.sql import statement
from app.queue.ending.handler import Handler, HandlerResult
from app.queue.ending.outbox_rows import End
from schema.states import ExecutionStatus, Followed, NotificationEvent, Trigger

_E = NotificationEvent

FACTS = statement(
    "notifications.facts",
    """
    SELECT e.execution_id, e.job_id, j.trigger_type, j.first_version_id, j.name, j.labels
      FROM executions AS e JOIN jobs AS j ON j.job_id = e.job_id
     WHERE e.execution_id = ANY (CAST(:ids AS TEXT[]))
    """,
)
# Reads two short ranges of idx_executions_ended_of_job, however long the history.
STREAK = statement(
    "notifications.streak",
    """
    WITH failed AS (
      SELECT created_at, execution_id FROM executions
       WHERE job_id = :job_id AND status = 'FAILED' AND completed_at IS NOT NULL
       ORDER BY created_at DESC, execution_id DESC LIMIT :most),
    succeeded AS (
      SELECT created_at, execution_id FROM executions
       WHERE job_id = :job_id AND status = 'SUCCESS' AND completed_at IS NOT NULL
       ORDER BY created_at DESC, execution_id DESC LIMIT 1)
    SELECT count(*) AS failures FROM failed
     WHERE NOT EXISTS (SELECT 1 FROM succeeded AS s
                        WHERE (s.created_at, s.execution_id) > (failed.created_at, failed.execution_id))
    """,
)


def _concerns(end: End) -> bool:
    return end.status is ExecutionStatus.FAILED and not end.is_rejected


def _note(connection: Connection, ends: Sequence[End]) -> HandlerResult:
    """Store event batches of failures; failures of notifications themselves are only counted."""
    reportable = [end for end in ends if Followed.NOTIFICATION not in end.followed]
    counts = {NOTIFICATIONS_FAILED: len(ends) - len(reportable)}
    rules = notifications_store.read_all(connection) if reportable else []
    rules = [rule for rule in rules if any(map(rule.covers, (_E.EXECUTION_FAILED, _E.JOB_FAILING, _E.JOB_RECOVERED)))]
    if rules:
        facts = connection.execute(FACTS, {"ids": [end.execution_id for end in reportable]})
        rows = {row.execution_id: row for row in facts}
        matched: dict[str, list[Occurrence]] = defaultdict(list)
        # The streak of a job is the same for all its failures in the batch.
        repeating: dict[str, tuple[Row[Any], Occurrence]] = {}
        for end in reportable:
            if (row := rows.get(end.execution_id)) is None:
                continue
            failure = execution_failed(end.endpoint, end.ended_at, end.execution_id, row.labels)
            for rule in rules:
                if rule.matches(failure):
                    matched[rule.name].append(failure)
            if Trigger(row.trigger_type).repeats:
                repeating[row.job_id] = row, failure._replace(event=_E.JOB_FAILING, subject=job_subject(row))
        for rule, failure in _new_alerts(connection, rules, repeating.values()):
            matched[rule.name].append(failure)
        counts[NOTIFICATION_EVENTS] = notifications_store.add_batches(connection, matched)
    return HandlerResult(counts=counts)


def _new_alerts(
    connection: Connection, rules: Sequence[Rule], jobs: Iterable[tuple[Row[Any], Occurrence]]
) -> list[tuple[Rule, Occurrence]]:
    """Open alerts of repeating jobs with `failing_after` failures in a row; return the new alerts to report."""
    details: dict[notifications_store.OpenAlert, dict[str, Any]] = {}
    failing: dict[notifications_store.OpenAlert, tuple[Rule, Occurrence]] = {}
    for row, failure in jobs:
        reporting = [rule for rule in rules if rule.reports_streaks(failure)]
        if not reporting:
            continue
        most = max(rule.failing_after for rule in reporting)
        failures = connection.execute(STREAK, {"job_id": row.job_id, "most": most}).scalar_one()
        for rule in reporting:
            if failures >= rule.failing_after:
                alert = rule.name, row.first_version_id or row.job_id
                details[alert] = {
                    "subject": failure.subject,
                    "endpoint": failure.endpoints[0],
                    "labels": failure.labels,
                }
                failing[alert] = rule, failure
    fresh = notifications_store.open_alerts(connection, _E.JOB_FAILING, details)
    return [failing[alert] for alert in fresh if failing[alert][0].matches(failing[alert][1])]


NOTIFICATIONS = Handler("notifications", _concerns, _note, counters=(NOTIFICATION_EVENTS, NOTIFICATIONS_FAILED))
