"""Failures of executions: what rules tell of them, and of repeating jobs that keep failing.

That a job works again nobody notices here, because a success that nobody follows leaves no end: a scheduler looks at
the few jobs that were failing (app.features.notifications.watching).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from sqlalchemy import Connection, Row

from app.features.notifications import event_batches
from app.features.notifications import store as notifications_store
from app.features.notifications.matching import Occurrence, tells
from app.features.notifications.rules import Rule
from app.features.notifications.store import Run
from app.kernel.metrics import series
from app.kernel.metrics.series import Series
from app.kernel.sql import statement
from app.queue.ending.outbox_rows import End
from schema.states import Followed, NotificationEvent, Trigger

_E = NotificationEvent
_OF_ENDS = frozenset({_E.EXECUTION_FAILED, _E.JOB_FAILING, _E.JOB_RECOVERED})

FACTS = statement(
    "notifications.facts",
    """
    SELECT e.execution_id, e.job_id, j.trigger_type, j.first_version_id, j.name, j.labels
      FROM executions AS e JOIN jobs AS j ON j.job_id = e.job_id
     WHERE e.execution_id = ANY (CAST(:ids AS TEXT[]))
    """,
)
# Two short ranges of idx_executions_ended_of_job, however long the history.
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
    """Note what rules tell of these failures, and nothing of those of notifications themselves; returns the counts."""
    of_others = [end for end in ends if Followed.NOTIFICATION not in end.followed]
    counts = {series.NOTIFICATIONS_FAILED: len(ends) - len(of_others)}
    run = cast("Run", connection.execute)
    concerned = (
        [rule for rule in notifications_store.read_all(run) if any(map(rule.wants, _OF_ENDS))] if of_others else []
    )
    if concerned:
        params = {"ids": [end.execution_id for end in of_others]}
        facts = {row.execution_id: row for row in connection.execute(FACTS, params)}
        known = [(end, facts[end.execution_id]) for end in of_others if end.execution_id in facts]
        what = [occurrence(_E.EXECUTION_FAILED, end, row) for end, row in known]
        told = {rule.name: [each for each in what if tells(rule, each)] for rule in concerned}
        for rule, each in _failing(run, concerned, known):
            told[rule.name].append(each)
        counts[series.NOTIFICATION_EVENTS] = event_batches.put_matched(run, told)
    return counts


def occurrence(event: NotificationEvent, end: End, row: Row[Any]) -> Occurrence:
    """Return a failure as rules see it: of its endpoint, or of its job by the name or the id of its first version."""
    subject = end.endpoint if event is _E.EXECUTION_FAILED else row.name or row.first_version_id or row.job_id
    return Occurrence(
        event=event,
        subject=subject,
        at=end.ended_at,
        example=end.execution_id,
        endpoints=(end.endpoint,),
        labels=row.labels or {},
    )


def follows_streaks(rule: Rule, what: Occurrence) -> bool:
    """Return whether a rule tells that such a job keeps failing, or that it works again."""
    both = (_E.JOB_FAILING, _E.JOB_RECOVERED)
    return any(tells(rule, replace(what, event=event)) for event in both)


def _failing(
    run: Run, concerned: Iterable[Rule], known: Iterable[tuple[End, Row[Any]]]
) -> list[tuple[Rule, Occurrence]]:
    """Find the repeating jobs that have failed so often in a row that a rule tells of it, which nobody has noted."""
    # Of several failures of a job the last one tells of all.
    latest = {row.job_id: (end, row) for end, row in known if Trigger(row.trigger_type).repeats}
    begins: dict[event_batches.Condition, Mapping[str, Any]] = {}
    of_condition: dict[event_batches.Condition, tuple[Rule, Occurrence]] = {}
    for job_id, (end, row) in sorted(latest.items()):
        what = occurrence(_E.JOB_FAILING, end, row)
        following = [rule for rule in concerned if follows_streaks(rule, what)]
        if not following:
            continue
        most = max(rule.failing_after for rule in following)
        (found,) = run(STREAK, {"job_id": job_id, "most": most})
        for rule in following:
            if found.failures >= rule.failing_after:
                condition = _E.JOB_FAILING, rule.name, row.first_version_id or job_id
                begins[condition] = {"subject": what.subject, "endpoint": end.endpoint, "labels": row.labels or {}}
                of_condition[condition] = rule, what
    fresh = event_batches.begin(run, begins)
    return [(rule, what) for each, (rule, what) in of_condition.items() if each in fresh and tells(rule, what)]
