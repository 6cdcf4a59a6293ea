"""Failures: event batches of failed executions, and alerts of repeating jobs that keep failing.

Recovery is not detected here, because most successes write no completion event. A scheduler polls the jobs with an
open alert instead (app.features.notifications.watching).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from sqlalchemy import Connection, Row

from app.features.notifications import event_batches
from app.features.notifications import store as notifications_store
from app.features.notifications.rules import Occurrence, Rule
from app.features.notifications.store import Run
from app.kernel.metrics import series
from app.kernel.metrics.series import Series
from app.kernel.sql import statement
from app.queue.ending.outbox_rows import End
from schema.states import Followed, NotificationEvent, Trigger

_E = NotificationEvent
_FAILURE_EVENTS = frozenset({_E.EXECUTION_FAILED, _E.JOB_FAILING, _E.JOB_RECOVERED})

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


def note_failures(connection: Connection, ends: Sequence[End]) -> dict[Series, int]:
    """Store event batches of failures; failures of notifications themselves are only counted. Return the counts."""
    reportable = [end for end in ends if Followed.NOTIFICATION not in end.followed]
    counts = {series.NOTIFICATIONS_FAILED: len(ends) - len(reportable)}
    run = cast("Run", connection.execute)
    if not reportable:
        return counts
    rules = [rule for rule in notifications_store.read_all(run) if any(map(rule.covers, _FAILURE_EVENTS))]
    if rules:
        params = {"ids": [end.execution_id for end in reportable]}
        facts = {row.execution_id: row for row in connection.execute(FACTS, params)}
        known = [(end, facts[end.execution_id]) for end in reportable if end.execution_id in facts]
        failed = [_occurrence(_E.EXECUTION_FAILED, end, row) for end, row in known]
        matched = {rule.name: [each for each in failed if rule.matches(each)] for rule in rules}
        for rule, each in _failing(run, rules, known):
            matched[rule.name].append(each)
        counts[series.NOTIFICATION_EVENTS] = event_batches.add_batches(run, matched)
    return counts


def _occurrence(event: NotificationEvent, end: End, row: Row[Any]) -> Occurrence:
    """Return the occurrence of a failure; its subject is the endpoint, or the job for the other events."""
    subject = end.endpoint if event is _E.EXECUTION_FAILED else row.name or row.first_version_id or row.job_id
    return Occurrence(
        event=event,
        subject=subject,
        at=end.ended_at,
        example=end.execution_id,
        endpoints=(end.endpoint,),
        labels=row.labels or {},
    )


def reports_streaks(rule: Rule, failure: Occurrence) -> bool:
    """Return whether a rule reports that the job of an occurrence keeps failing, or that it recovered."""
    both = (_E.JOB_FAILING, _E.JOB_RECOVERED)
    return any(rule.matches(replace(failure, event=event)) for event in both)


def _failing(run: Run, rules: Iterable[Rule], known: Iterable[tuple[End, Row[Any]]]) -> list[tuple[Rule, Occurrence]]:
    """Open alerts of repeating jobs with `failing_after` failures in a row; return the new alerts."""
    # The streak of a job is the same for all its failures in the batch.
    latest = {row.job_id: (end, row) for end, row in known if Trigger(row.trigger_type).repeats}
    details: dict[event_batches.OpenAlert, Mapping[str, Any]] = {}
    by_alert: dict[event_batches.OpenAlert, tuple[Rule, Occurrence]] = {}
    for job_id, (end, row) in sorted(latest.items()):
        failure = _occurrence(_E.JOB_FAILING, end, row)
        reporting = [rule for rule in rules if reports_streaks(rule, failure)]
        if not reporting:
            continue
        most = max(rule.failing_after for rule in reporting)
        (found,) = run(STREAK, {"job_id": job_id, "most": most})
        for rule in reporting:
            if found.failures >= rule.failing_after:
                alert = _E.JOB_FAILING, rule.name, row.first_version_id or job_id
                details[alert] = {"subject": failure.subject, "endpoint": end.endpoint, "labels": row.labels or {}}
                by_alert[alert] = rule, failure
    fresh = event_batches.open_alerts(run, details)
    return [(rule, failure) for each, (rule, failure) in by_alert.items() if each in fresh and rule.matches(failure)]
