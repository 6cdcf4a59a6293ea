"""Endings: executions and attempts that ended at known instants, and a count of them that uses no SQL."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import insert, text

from app.features.rollups.rollup_slots import BEGIN, HOUR_S, MINUTE_S, SHORT_S, floored
from app.kernel import ids
from app.kernel.db import Database
from schema import tables
from schema.rollup_bounds import LATE_MS, TOOK_MS
from tests import rows

ENDPOINTS = ("busy", "usual", "quiet", "rare")
_WEIGHTS = (8, 4, 2, 1)
ERRORS = {
    "RETRYING": ("TIMEOUT", "HTTP_503", "WORKER_LOST"),
    "FAILED": ("HTTP_422", "TIMEOUT", "STUCK"),
    "CANCELLED": ("ABORTED",),
    "SUCCESS": (None, None, None, "HTTP_409"),  # the last one is ignored by its retry policy
}
UNSENT = {"FAILED": "EXPIRED", "CANCELLED": "CANCELLED"}


@dataclass(frozen=True, slots=True)
class Ending:
    """End of an attempt, or of an execution without one if `is_sent` is false."""

    endpoint: str
    at: datetime
    outcome: str
    error_type: str | None = None
    is_uncertain: bool = False
    is_sent: bool = True
    late_ms: int | None = None
    took_ms: int | None = None

    @property
    def figures(self) -> Counter[str]:
        """The columns to which the ending adds one."""
        outcomes = {"SUCCESS": "succeeded", "RETRYING": "retried", "FAILED": "failed", "CANCELLED": "cancelled"}
        found = Counter({outcomes[self.outcome]: 1, ("attempts" if self.is_sent else "unsent"): 1})
        found["uncertain"] += self.is_uncertain
        found["lost"] += self.error_type in {"WORKER_LOST", "STUCK"}
        for name, value, bounds in (("late", self.late_ms, LATE_MS), ("took", self.took_ms, TOOK_MS)):
            if value is not None:
                found[f"{name}_{sum(value > bound for bound in bounds)}"] += 1
        return +found


def begin_rollups(database: Database, minutes: int) -> datetime:
    """Let the rollups begin with a minute so long ago; the present hour is complete for them at its end."""
    start = floored(rows.database_now(database) - timedelta(minutes=minutes), MINUTE_S)
    for step, at in ((SHORT_S, start), (MINUTE_S, start), (HOUR_S, floored(start, HOUR_S) + timedelta(hours=1))):
        database.fetch(BEGIN, {"steps": [step], "at": at})
    return start


def random_endings(since: datetime, until: datetime, count: int, *, seed: int = 0) -> list[Ending]:
    chance, width = random.Random(seed), until - since
    return [_random(chance, since + chance.random() * width) for _ in range(count)]


def _random(chance: random.Random, at: datetime) -> Ending:
    (endpoint,), outcome = chance.choices(ENDPOINTS, _WEIGHTS), chance.choice(sorted(ERRORS))
    if outcome in UNSENT and chance.random() < 0.3:
        return Ending(endpoint, at, outcome, UNSENT[outcome] if outcome == "FAILED" else None, is_sent=False)
    late = chance.choice([0, 1, 2, 5, 24, 999, 7_200_000])
    error = chance.choice(ERRORS[outcome])
    found = Ending(endpoint, at, outcome, error, late_ms=late, took_ms=chance.choice([0, 5, 6, 30_000, 400_000]))
    return replace(found, is_uncertain=error in {"TIMEOUT", "WORKER_LOST", "ABORTED"})


def put_endings(database: Database, endings: Sequence[Ending]) -> None:
    """Insert the rows of endings, as the statements of the product write them."""
    for endpoint in {each.endpoint for each in endings}:
        of_endpoint = [each for each in endings if each.endpoint == endpoint]
        created = rows.add_executions(database, len(of_endpoint), endpoint=endpoint, max_attempts=2)
        for execution_id, each in zip(created, of_endpoint, strict=True):
            _end(database, execution_id, each)


def _end(database: Database, execution_id: str, each: Ending) -> None:
    started = each.at - timedelta(milliseconds=each.took_ms or 0)
    is_plain = each.outcome == "SUCCESS" and each.error_type is None
    state = {
        "id": execution_id,
        "status": each.outcome,
        "attempt": int(each.is_sent),
        "started": started if each.is_sent else None,
        "completed": None if each.outcome == "RETRYING" else each.at,
        "due": started - timedelta(milliseconds=each.late_ms or 0),
        "took": each.took_ms,
        "recorded": each.at if is_plain else None,
    }
    changed = """
        UPDATE executions SET status = :status, worker_id = 'w', attempt_count = :attempt, started_at = :started,
               completed_at = :completed, run_at = :due, duration_ms = :took, recorded_at = :recorded
         WHERE execution_id = :id"""
    database.fetch(text(changed), state)
    if not each.is_sent:
        values = {"event_id": ids.event_id(), "execution_id": execution_id, "occurred_at": each.at}
        change = {"from_status": "QUEUED", "to_status": each.outcome, "attempt_number": 0}
        reason = {"reason": UNSENT[each.outcome]}
        database.fetch(insert(tables.execution_events).values(values | change | reason))
    elif not is_plain:
        error = {"type": each.error_type, "may_have_been_delivered": each.is_uncertain}
        attempt = {
            "attempt_id": ids.attempt_id(),
            "execution_id": execution_id,
            "attempt_number": 1,
            "status": "SUCCESS" if each.outcome == "SUCCESS" else "FAILED",
            "worker_id": "w",
            "started_at": started,
            "completed_at": each.at,
            "duration_ms": each.took_ms,
            "error": error,
            "led_to": None if each.outcome == "SUCCESS" else each.outcome,
            "created_at": each.at,
            "due_at": state["due"],
        }
        database.fetch(insert(tables.attempts).values(attempt))


def recounted(endings: Iterable[Ending], step_s: int) -> dict[tuple[str, datetime], Counter[str]]:
    """Count endings by endpoint and slot; '' is the sum of all endpoints."""
    found = defaultdict[tuple[str, datetime], Counter[str]](Counter)
    for each in endings:
        for name in ("", each.endpoint):
            found[name, floored(each.at, step_s)] += each.figures
    return dict(found)


def recounted_failures(endings: Iterable[Ending], step_s: int) -> dict[tuple[str, datetime, str], Counter[str]]:
    """Count the endings with an error by endpoint, slot and type."""
    found = defaultdict[tuple[str, datetime, str], Counter[str]](Counter)
    for each in endings:
        for name in ("", each.endpoint):
            if each.error_type is not None:
                outcome = {"FAILED": "failed", "RETRYING": "retried"}.get(each.outcome)
                counts = Counter({outcome: 1} if outcome else {}) + Counter({"uncertain": int(each.is_uncertain)})
                found[name, floored(each.at, step_s), each.error_type] += counts
    return dict(found)
