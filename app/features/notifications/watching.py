"""Watching: what goes on that no end tells of, noted once for each rule, by whichever scheduler sees it first.

A worker is lost, a breaker open, a queue or a schedule late: each goes on for a while, so it is noted as a condition of
each rule that tells of it, and told once when that row is new. The row goes when it is over. A job that keeps failing
is such a condition as well, noted by its failures (`failures`); that it works again is seen here. All of a
look is one transaction, and of two schedulers that look at the same moment one leaves it to the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from app.features.notifications import event_batches, facts
from app.features.notifications import store as notifications_store
from app.features.notifications.event_batches import Condition
from app.features.notifications.failures import follows_streaks
from app.features.notifications.matching import Occurrence, tells
from app.features.notifications.rules import Rule
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.sql import statement
from schema.states import JobStatus, NotificationEvent

_E = NotificationEvent
MOST_STREAKS = 500  # failing jobs that one look asks after
MOST_NOTED = 2_000  # conditions of an event that one look asks after
MOST_BEGUN = 5_000  # of an event: what goes on, each counted for each rule, that one look tries to note
_WATCHED = (_E.WORKER_LOST, _E.BREAKER_OPENED, _E.SCHEDULE_OVERDUE, _E.QUEUE_LATE)

# Not the lock but the rows of conditions make that each is told once; with it nobody acts on what was true before.
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
# The newest version of a job, and whether its newest end is a success.
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
class _Place:
    """Where the next look goes on with an event: after this condition, and for the noting with this rule."""

    rule: str = ""
    subject: str = ""
    first: str = ""


@dataclass(slots=True)
class _Look:
    """What one look has found, and where the next one goes on."""

    begins: dict[Condition, Occurrence] = field(default_factory=dict)
    over: set[Condition] = field(default_factory=set)
    places: dict[NotificationEvent, _Place] = field(default_factory=dict)


class Watcher:
    """Looks for what goes on, for one scheduler; of very many conditions at some in each look."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._places: Mapping[NotificationEvent, _Place] = {}

    def look(self) -> int:
        """Note what has begun since the last look, and what is over; returns of how many events rules tell."""
        run = self._database.fetch
        if not notifications_store.read_all(run):
            return 0
        told, self._places = self._database.transact_jointly(self._look)
        return told

    def _look(self) -> tuple[int, Mapping[NotificationEvent, _Place]]:
        run = self._database.fetch
        locked = run(LOCK)
        if not locked:
            return 0, self._places
        by_name, look = notifications_store.read_each(run), _Look()
        told = self._works_again(by_name, look)
        for event in _WATCHED:
            self._compare(event, by_name, look, locked[0].now)
        fresh = event_batches.begin(run, dict.fromkeys(look.begins))
        event_batches.end(run, look.over)
        for condition in sorted(fresh):
            told.setdefault(condition[1], []).append(look.begins[condition])
        return event_batches.put_matched(run, told), look.places

    def _compare(
        self, event: NotificationEvent, by_name: Mapping[str, Rule | None], look: _Look, now: datetime
    ) -> None:
        """Find what goes on now, of which rules tell, and what they were told of that does not any more."""
        wanting = [rule for rule in by_name.values() if rule is not None and rule.wants(event)]
        least = min((rule.late_seconds for rule in wanting), default=0)
        found = facts.going_on(self._database, event, now, least) if wanting else []
        begins, first = _begins(wanting, found, self._place(event).first)
        look.begins |= begins
        rows = self._noted(event, MOST_NOTED, look, first)
        known = {fact.key: fact for fact in found}
        if len(found) >= facts.MOST:
            # It is not all that goes on: what is over of the rest is asked by name.
            others = sorted({row.subject for row in rows} - known.keys())
            still = facts.still_going_on(self._database, event, others, now, least)
            known |= {fact.key: fact for fact in still}
        look.over |= {(event, row.rule, row.subject) for row in rows if _is_over(row, by_name, known)}

    def _noted(self, event: NotificationEvent, most: int, look: _Look, first: str = "") -> Sequence[Row[Any]]:
        """Read the next conditions of an event."""
        place = self._place(event)
        params = {"event": event.value, "rule": place.rule, "subject": place.subject, "limit": most}
        rows = self._database.fetch(NOTED, params)
        rule, subject = (rows[-1].rule, rows[-1].subject) if len(rows) == most else ("", "")
        look.places[event] = _Place(rule, subject, first)
        return rows

    def _place(self, event: NotificationEvent) -> _Place:
        return self._places.get(event, _Place())

    def _works_again(self, by_name: Mapping[str, Rule | None], look: _Look) -> dict[str, list[Occurrence]]:
        """Find the jobs that kept failing and work again, or are gone."""
        over: dict[Condition, Occurrence | None] = {}
        for row in self._noted(_E.JOB_FAILING, MOST_STREAKS, look):
            condition = _E.JOB_FAILING, row.rule, row.subject
            followed_by = by_name.get(row.rule)
            if followed_by is None and row.rule in by_name:
                continue
            found = self._database.fetch(LATEST, {"first": row.subject})
            if followed_by is None or not found:
                over[condition] = None
            elif found[0].execution_id is not None:
                over[condition] = _recovery(row, found[0].completed_at, found[0].execution_id)
            elif found[0].status == JobStatus.RETIRED or not _still_follows(followed_by, row):
                over[condition] = None
        told: dict[str, list[Occurrence]] = {}
        for condition in sorted(event_batches.end(self._database.fetch, over)):
            what = over[condition]
            follower = by_name.get(condition[1])
            if what is not None and follower is not None and tells(follower, what):
                told.setdefault(condition[1], []).append(what)
        return told


def _begins(
    wanting: Sequence[Rule], found: Sequence[facts.Fact], first: str
) -> tuple[dict[Condition, Occurrence], str]:
    """Return what goes on of which rules tell, some from the rule `first` on; and the one to begin with next time."""
    begins: dict[Condition, Occurrence] = {}
    ordered = sorted(wanting, key=lambda rule: (rule.name < first, rule.name))
    for rule in ordered:
        if len(begins) >= MOST_BEGUN:
            return begins, rule.name
        begins |= {(fact.what.event, rule.name, fact.key): fact.what for fact in found if _goes_on(rule, fact)}
    return begins, ""


def _goes_on(rule: Rule, fact: facts.Fact) -> bool:
    return tells(rule, fact.what) and fact.for_seconds >= _least_seconds(rule, fact.what.event)


def _is_over(noted: Row[Any], by_name: Mapping[str, Rule | None], known: Mapping[str, facts.Fact]) -> bool:
    """Return whether what a rule was told of goes on no more; of a rule that only others can read is theirs to end."""
    rule, fact = by_name.get(noted.rule), known.get(noted.subject)
    if rule is None:
        return noted.rule not in by_name
    return fact is None or not _goes_on(rule, fact)


def _least_seconds(rule: Rule, event: NotificationEvent) -> float:
    return rule.late_seconds if event in {_E.QUEUE_LATE, _E.SCHEDULE_OVERDUE} else 0.0


def _still_follows(rule: Rule, condition: Row[Any]) -> bool:
    """Return whether a rule, which may have been changed since, would be told of such a job."""
    return follows_streaks(rule, _recovery(condition, EPOCH, None))


def _recovery(condition: Row[Any], at: datetime, execution_id: str | None) -> Occurrence:
    details = condition.details or {}
    return Occurrence(
        event=_E.JOB_RECOVERED,
        subject=details.get("subject", condition.subject),
        at=at,
        example=execution_id,
        endpoints=(details["endpoint"],) if "endpoint" in details else (),
        labels=details.get("labels", {}),
    )
