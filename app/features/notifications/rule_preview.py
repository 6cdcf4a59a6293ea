"""Preview: messages that a rule would have sent within the last day, by the stored history.

History is read by indexes, in pages, latest first and up to a bound. Beyond the bound the preview covers less time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Row

from app.features.notifications.facts import breaker_opened, endpoints_by_target, worker_lost
from app.features.notifications.failures import reports_streaks
from app.features.notifications.pacing import RuleSimulation, simulate
from app.features.notifications.rules import Occurrence, Rule
from app.kernel.db import Database
from app.kernel.sql import statement
from schema.states import ExecutionStatus, Followed, NotificationEvent, Trigger

_E = NotificationEvent
DAY = timedelta(days=1)
_NEVER = datetime(9999, 1, 1, tzinfo=UTC)
PAGE = 500
MAX_LETTERS = 10_000  # open dead letters, and as many resolved dead letters
MAX_EVENTS = 1_000  # lost workers, and as many opened breakers
MAX_JOBS = 50  # repeating jobs whose executions are read
MAX_ENDS = 500  # failures of each such job, and as many successes
WITHOUT_HISTORY = frozenset({_E.SCHEDULE_OVERDUE, _E.QUEUE_LATE})  # no history of lateness is stored

CLOCK = statement("notifications.clock", "SELECT now() AS now")
LETTERS = {
    (state, is_one): statement(
        f"notifications.letters_{state}{'_of_endpoint' if is_one else ''}",
        f"""
        SELECT d.failed_at, d.letter_id, d.execution_id, d.job_id, d.endpoint, d.labels, e.followed,
               j.trigger_type, j.first_version_id, j.name
          FROM (SELECT failed_at, letter_id, execution_id, job_id, endpoint, labels FROM dead_letters
                 WHERE resolved_at {condition} {"AND endpoint = :endpoint" if is_one else ""}
                   AND failed_at >= CAST(:since AS TIMESTAMPTZ)
                   AND (failed_at, letter_id) < (CAST(:at AS TIMESTAMPTZ), CAST(:key AS TEXT))
                 ORDER BY failed_at DESC, letter_id DESC LIMIT {PAGE}) AS d
          LEFT JOIN executions AS e ON e.execution_id = d.execution_id
          LEFT JOIN jobs AS j ON j.job_id = d.job_id
         ORDER BY d.failed_at DESC, d.letter_id DESC
        """,  # noqa: S608 - constants of this module
    )
    for state, condition in (("open", "IS NULL"), ("resolved", "IS NOT NULL"))
    for is_one in (False, True)
}
ENDS = statement(
    "notifications.ends_of_job",
    f"""
    SELECT status, created_at, execution_id, completed_at FROM executions
     WHERE job_id = :job_id AND status = :status AND completed_at IS NOT NULL
       AND created_at >= CAST(:since AS TIMESTAMPTZ)
     ORDER BY created_at DESC, execution_id DESC LIMIT {MAX_ENDS}
    """,  # noqa: S608 - a constant of this module
)
OPENED = statement(
    "notifications.opened_breakers",
    f"""
    SELECT target, occurred_at FROM breaker_events
     WHERE occurred_at >= CAST(:since AS TIMESTAMPTZ) AND to_state = 'open' AND from_state = 'closed'
     ORDER BY occurred_at DESC, event_id DESC LIMIT {MAX_EVENTS}
    """,  # noqa: S608 - as above
)
LOST = statement(
    "notifications.workers_lost_since",
    f"""
    SELECT worker_id, host, queues, lease_expires_at FROM workers
     WHERE status = 'ALIVE' AND lease_expires_at <= now() AND lease_expires_at >= CAST(:since AS TIMESTAMPTZ)
     ORDER BY lease_expires_at DESC, worker_id LIMIT {MAX_EVENTS}
    """,  # noqa: S608 - as above
)


@dataclass(frozen=True, slots=True)
class Preview:
    """Messages that a rule would have sent from `since` on; `is_truncated` if that is less than a day."""

    since: datetime
    until: datetime
    is_truncated: bool
    simulation: RuleSimulation


@dataclass(slots=True)
class _Read:
    """Occurrences that were read, complete from `since` on."""

    since: datetime
    occurrences: list[Occurrence]
    max_letters: int
    is_truncated: bool = False

    def cut(self, at: datetime) -> None:
        """Record that occurrences before an instant are incomplete."""
        self.since, self.is_truncated = max(self.since, at), True


def preview(database: Database, rule: Rule, max_letters: int = MAX_LETTERS) -> Preview:
    """Return the messages that a rule would have sent within the last day."""
    now: datetime = database.fetch(CLOCK)[0].now
    read = _Read(now - DAY, [], max_letters)
    _read_failures(database, rule, read)
    if rule.covers(_E.BREAKER_OPENED):
        _read_breakers(database, read)
    if rule.covers(_E.WORKER_LOST):
        _read_workers(database, read)
    known = sorted((each for each in read.occurrences if each.at >= read.since), key=lambda each: each.at)
    return Preview(read.since, now, read.is_truncated, simulate(rule, known, now))


def streaks(rule: Rule, latest: Occurrence, ends: Iterable[Row[Any]]) -> list[Occurrence]:
    """Return the occurrences of `job.failing` and `job.recovered` in the executions of a job, oldest first."""
    found, failures = list[Occurrence](), 0
    for end in ends:
        is_failure = end.status == ExecutionStatus.FAILED
        event = None
        if is_failure and failures + 1 == rule.failing_after:
            event = _E.JOB_FAILING
        elif not is_failure and failures >= rule.failing_after:
            event = _E.JOB_RECOVERED
        failures = failures + 1 if is_failure else 0
        if event is not None:
            at, example = end.completed_at, end.execution_id
            found.append(replace(latest, event=event, at=at, example=example))
    return found


def _read_failures(database: Database, rule: Rule, read: _Read) -> None:
    """Read the dead letters (one per failure), and the executions of their repeating jobs."""
    if not any(map(rule.covers, (_E.EXECUTION_FAILED, _E.JOB_FAILING, _E.JOB_RECOVERED))):
        return
    jobs: dict[str, Occurrence] = {}
    for state in ("open", "resolved"):
        for row in _letters(database, rule, state, read):
            if (row.followed or 0) & Followed.NOTIFICATION:
                continue
            failed = Occurrence(
                event=_E.EXECUTION_FAILED,
                subject=row.endpoint,
                at=row.failed_at,
                example=row.execution_id,
                endpoints=(row.endpoint,),
                labels=row.labels or {},
            )
            read.occurrences.append(failed)
            if row.trigger_type is not None and Trigger(row.trigger_type).repeats and reports_streaks(rule, failed):
                jobs.setdefault(row.job_id, replace(failed, subject=row.name or row.first_version_id or row.job_id))
    if len(jobs) > MAX_JOBS:
        read.is_truncated = True
    for job_id, latest in list(jobs.items())[:MAX_JOBS]:
        read.occurrences += streaks(rule, latest, _ends(database, job_id, read))


def _letters(database: Database, rule: Rule, state: str, read: _Read) -> Sequence[Row[Any]]:
    pattern = rule.endpoint
    is_one = pattern is not None and not set("*?") & set(pattern)
    found: list[Row[Any]] = []
    params = {"since": read.since, "at": _NEVER, "key": ""} | ({"endpoint": pattern} if is_one else {})
    while True:
        page = database.fetch(LETTERS[state, is_one], params)
        found += page
        if len(page) < PAGE:
            return found
        if len(found) >= read.max_letters:
            read.cut(page[-1].failed_at)
            return found
        params |= {"at": page[-1].failed_at, "key": page[-1].letter_id}


def _ends(database: Database, job_id: str, read: _Read) -> list[Row[Any]]:
    found: list[Row[Any]] = []
    for status in (ExecutionStatus.FAILED, ExecutionStatus.SUCCESS):
        rows = database.fetch(ENDS, {"job_id": job_id, "status": status.value, "since": read.since})
        if len(rows) == MAX_ENDS:
            read.cut(rows[-1].completed_at)
        found += rows
    return sorted(found, key=lambda end: (end.created_at, end.execution_id))


def _read_breakers(database: Database, read: _Read) -> None:
    rows = database.fetch(OPENED, {"since": read.since})
    if len(rows) == MAX_EVENTS:
        read.cut(rows[-1].occurred_at)
    leading = endpoints_by_target(database, [row.target for row in rows])
    read.occurrences += [breaker_opened(row.target, row.occurred_at, leading) for row in rows]


def _read_workers(database: Database, read: _Read) -> None:
    rows = database.fetch(LOST, {"since": read.since})
    if len(rows) == MAX_EVENTS:
        read.cut(rows[-1].lease_expires_at)
    read.occurrences += [worker_lost(row) for row in rows]
