"""Preview: messages that a rule would have sent within the last day, by the stored history.

History is read by indexes, latest first and up to a bound. Beyond the bound the preview covers less time.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from sqlalchemy import Executable, Row

from app.features.notifications.facts import breaker_opened, endpoints_by_target, worker_lost, workflow_failed
from app.features.notifications.pacing import RuleSimulation
from app.features.notifications.rules import Occurrence, Rule, execution_failed, job_subject
from app.kernel.db import Database
from app.kernel.sql import statement
from schema.states import ExecutionStatus, Followed, NotificationEvent, Trigger
from schema.tables.workflows import FAILED_WORKFLOW

_E = NotificationEvent
DAY = timedelta(days=1)
MAX_LETTERS = 10_000  # open dead letters; the same number of resolved dead letters
MAX_EVENTS = 1_000  # lost workers; the same number of opened breakers, and of failed workflows
MAX_JOBS = 50  # repeating jobs whose executions are read
MAX_ENDS = 500  # failures of each such job; the same number of successes
WITHOUT_HISTORY = frozenset({_E.SCHEDULE_OVERDUE, _E.QUEUE_LATE, _E.WORKFLOW_LATE})  # no history of lateness is stored

CLOCK = statement("notifications.clock", "SELECT now() AS now")
LETTERS = {
    (state, is_one): statement(
        f"notifications.letters_{state}{'_of_endpoint' if is_one else ''}",
        """
        SELECT d.failed_at, d.letter_id, d.execution_id, d.job_id, d.endpoint, d.labels, e.followed,
               j.trigger_type, j.first_version_id, j.name
          FROM (SELECT failed_at, letter_id, execution_id, job_id, endpoint, labels FROM dead_letters
                 WHERE resolved_at {condition} {of_endpoint}
                   AND failed_at >= CAST(:since AS TIMESTAMPTZ)
                 ORDER BY failed_at DESC, letter_id DESC LIMIT :limit) AS d
          LEFT JOIN executions AS e ON e.execution_id = d.execution_id
          LEFT JOIN jobs AS j ON j.job_id = d.job_id
         ORDER BY d.failed_at DESC, d.letter_id DESC
        """,
        condition=condition,
        of_endpoint="AND endpoint = :endpoint" if is_one else "",
    )
    for state, condition in (("open", "IS NULL"), ("resolved", "IS NOT NULL"))
    for is_one in (False, True)
}
ENDS = statement(
    "notifications.ends_of_job",
    """
    SELECT status, created_at, execution_id, completed_at FROM executions
     WHERE job_id = :job_id AND status = :status AND completed_at IS NOT NULL
       AND created_at >= CAST(:since AS TIMESTAMPTZ)
     ORDER BY created_at DESC, execution_id DESC LIMIT :limit
    """,
)
OPENED = statement(
    "notifications.opened_breakers",
    """
    SELECT target, occurred_at FROM breaker_events
     WHERE occurred_at >= CAST(:since AS TIMESTAMPTZ) AND to_state = 'open' AND from_state = 'closed'
     ORDER BY occurred_at DESC, event_id DESC LIMIT :limit
    """,
)
LOST = statement(
    "notifications.workers_lost_since",
    """
    SELECT worker_id, host, queues, lease_expires_at FROM workers
     WHERE status = 'ALIVE' AND lease_expires_at <= now() AND lease_expires_at >= CAST(:since AS TIMESTAMPTZ)
     ORDER BY lease_expires_at DESC, worker_id LIMIT :limit
    """,
)
FAILED = statement(
    "notifications.workflows_failed_since",
    """
    SELECT workflow_id, name, labels, ended_at FROM workflows
     WHERE {failed_workflow} AND ended_at >= CAST(:since AS TIMESTAMPTZ)
     ORDER BY ended_at DESC, workflow_id DESC LIMIT :limit
    """,
    failed_workflow=FAILED_WORKFLOW,
)


class Preview:
    """Messages that a rule would have sent from `since` on; `is_truncated` if that is less than a day."""

    def __init__(self, database: Database, rule: Rule, *, max_letters: int = MAX_LETTERS) -> None:
        self._database, self._rule, self._max_letters = database, rule, max_letters
        self.until: datetime = database.fetch(CLOCK)[0].now
        self.since, self.is_truncated = self.until - DAY, False
        occurrences = [*self._failures(), *self._breakers(), *self._workers(), *self._workflows()]
        known = sorted((each for each in occurrences if each.at >= self.since), key=attrgetter("at"))
        self.simulation = RuleSimulation(rule)
        self.simulation.run(known, self.until)

    def _read(self, query: Executable, at: str, limit: int, **params: Any) -> Sequence[Row[Any]]:
        """Read rows, latest first; after a full read the preview begins at the last row, by its column `at`."""
        rows = self._database.fetch(query, {"since": self.since, "limit": limit} | params)
        if len(rows) == limit:
            self.since, self.is_truncated = max(self.since, getattr(rows[-1], at)), True
        return rows

    def _failures(self) -> Iterator[Occurrence]:
        """Read the dead letters (one per failure), and the executions of their repeating jobs."""
        if not any(map(self._rule.covers, (_E.EXECUTION_FAILED, _E.JOB_FAILING, _E.JOB_RECOVERED))):
            return
        pattern, jobs = self._rule.endpoint, dict[str, Occurrence]()
        of_endpoint = {} if pattern is None or set("*?") & set(pattern) else {"endpoint": pattern}
        for state in ("open", "resolved"):
            for row in self._read(LETTERS[state, bool(of_endpoint)], "failed_at", self._max_letters, **of_endpoint):
                if (row.followed or 0) & Followed.NOTIFICATION:
                    continue
                failure = execution_failed(row.endpoint, row.failed_at, row.execution_id, row.labels)
                yield failure
                repeats = row.trigger_type is not None and Trigger(row.trigger_type).repeats
                if repeats and self._rule.reports_streaks(failure):
                    jobs.setdefault(row.job_id, failure._replace(subject=job_subject(row)))
        self.is_truncated |= len(jobs) > MAX_JOBS
        for job_id, latest in list(jobs.items())[:MAX_JOBS]:
            ends = [
                row
                for status in (ExecutionStatus.FAILED, ExecutionStatus.SUCCESS)
                for row in self._read(ENDS, "completed_at", MAX_ENDS, job_id=job_id, status=status.value)
            ]
            ordered = sorted(ends, key=attrgetter("created_at", "execution_id"))
            yield from streaks(self._rule.failing_after, latest, ordered)

    def _breakers(self) -> list[Occurrence]:
        rows = self._read(OPENED, "occurred_at", MAX_EVENTS) if self._rule.covers(_E.BREAKER_OPENED) else ()
        endpoints = endpoints_by_target(self._database, (row.target for row in rows))
        return [breaker_opened(row.target, row.occurred_at, endpoints) for row in rows]

    def _workers(self) -> list[Occurrence]:
        rows = self._read(LOST, "lease_expires_at", MAX_EVENTS) if self._rule.covers(_E.WORKER_LOST) else ()
        return [worker_lost(row) for row in rows]

    def _workflows(self) -> list[Occurrence]:
        rows = self._read(FAILED, "ended_at", MAX_EVENTS) if self._rule.covers(_E.WORKFLOW_FAILED) else ()
        return [workflow_failed(row) for row in rows]


def streaks(failing_after: int, latest: Occurrence, ends: Iterable[Row[Any]]) -> Iterator[Occurrence]:
    """Return the occurrences of `job.failing` and `job.recovered` in the executions of a job, oldest first."""
    failures = 0
    for end in ends:
        is_failure = end.status == ExecutionStatus.FAILED
        if is_failure and failures + 1 == failing_after:
            yield latest._replace(event=_E.JOB_FAILING, at=end.completed_at, example=end.execution_id)
        elif not is_failure and failures >= failing_after:
            yield latest._replace(event=_E.JOB_RECOVERED, at=end.completed_at, example=end.execution_id)
        failures = failures + 1 if is_failure else 0
