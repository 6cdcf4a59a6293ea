"""Every change of an execution's state, in order: put together from its row, its attempts and its events.

Attempts tell of claims and ends, events of what leaves no attempt. What neither tells (a promotion) is filled in, at
an instant that is estimated and says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row

from app.db import Database
from app.errors import ExecutionNotFoundError
from app.executions.events import Reason
from app.sql import statement
from schema.states import ExecutionStatus

MOST = 1000  # attempts, and events: the latest ones; the statement reads one more, to know of it

# One statement, so that all of it is seen at one instant.
FACTS = statement(
    "executions.history",
    """
    WITH tried AS (
      SELECT attempt_number, status, started_at, completed_at, worker_id, error ->> 'type' AS error FROM attempts
       WHERE execution_id = :execution_id ORDER BY attempt_number DESC LIMIT CAST(:most AS BIGINT) + 1),
    noted AS (
      SELECT attempt_number, from_status, to_status, occurred_at, actor, reason FROM execution_events
       WHERE execution_id = :execution_id ORDER BY occurred_at DESC, event_id DESC LIMIT CAST(:most AS BIGINT) + 1)
    SELECT 'execution' AS kind, attempt_count AS attempt, CAST(NULL AS TEXT) AS before, status AS after,
           started_at, completed_at AS at, worker_id AS actor, CAST(NULL AS TEXT) AS reason, created_at, scheduled_at
      FROM executions WHERE execution_id = :execution_id
    UNION ALL
    SELECT 'attempt', attempt_number, NULL, status, started_at, completed_at, worker_id, error, NULL, NULL FROM tried
    UNION ALL
    SELECT 'event', attempt_number, from_status, to_status, NULL, occurred_at, actor, reason, NULL, NULL FROM noted
    """,
)

_S = ExecutionStatus
_RECLAIMED = frozenset({"WORKER_LOST", "STUCK"})


@dataclass(frozen=True, slots=True)
class Step:
    """One change of state; `attempt` is the latest that had begun, 0 before the first."""

    at: datetime
    before: ExecutionStatus | None
    after: ExecutionStatus
    attempt: int
    actor: str | None
    reason: str
    is_estimated: bool = False


@dataclass(frozen=True, slots=True)
class History:
    """The steps in order, and whether earlier ones than the latest were left out."""

    steps: list[Step]
    is_truncated: bool


@dataclass(frozen=True, slots=True)
class _Fact:
    """A change that is on record. What an end led to is seen from what came next: then `after` is None."""

    at: datetime
    before: ExecutionStatus | None
    after: ExecutionStatus | None
    attempt: int
    actor: str | None
    reason: str


def history_of(database: Database, execution_id: str, *, look_ahead: timedelta) -> History:
    """Read the history of an execution; raises ExecutionNotFoundError."""
    rows = database.fetch(FACTS, {"execution_id": execution_id, "most": MOST})
    found = [row for row in rows if row.kind == "execution"]
    if not found:
        raise ExecutionNotFoundError.of(execution_id)
    told = [row for kind in ("attempt", "event") for row in _latest(rows, kind)]
    steps = _steps(found[0], _facts(found[0], told), look_ahead)
    return History(steps, is_truncated=len(told) + len(found) < len(rows))


def _latest(rows: Sequence[Row[Any]], kind: str) -> list[Row[Any]]:
    """Take those of a kind without the one too many."""
    of_kind = [row for row in rows if row.kind == kind]
    return sorted(of_kind, key=lambda row: (row.at or row.started_at, row.attempt))[-MOST:]


def _facts(execution: Row[Any], rows: Sequence[Row[Any]]) -> list[_Fact]:
    facts = [_of_event(row) for row in rows if row.kind == "event"]
    asked = {fact.attempt: fact.at for fact in facts if fact.reason == Reason.CANCEL_REQUESTED}
    for row in rows:
        if row.kind == "attempt":
            facts += _of_attempt(row, asked.get(row.attempt))
    if execution.after == _S.RUNNING:
        facts.append(_claim(execution.started_at, execution, asked.get(execution.attempt)))
    return sorted(facts, key=lambda fact: (fact.at, fact.attempt, fact.reason != Reason.CLAIMED))


def _of_event(row: Row[Any]) -> _Fact:
    return _Fact(row.at, _S(row.before), _S(row.after), row.attempt, row.actor, row.reason)


def _of_attempt(row: Row[Any], asked_at: datetime | None) -> list[_Fact]:
    by = "scheduler" if row.reason in _RECLAIMED else row.actor
    after = _S.SUCCESS if row.after == _S.SUCCESS else None
    reason = "DELIVERED" if after else row.reason or "FAILED"
    end = _Fact(row.at or row.started_at, _S.RUNNING, after, row.attempt, by, reason)
    return [_claim(row.started_at, row, asked_at), end]


def _claim(at: datetime, row: Row[Any], asked_at: datetime | None) -> _Fact:
    # An attempt starts when its instant comes, which may be a little after the claim.
    at = min(at, asked_at) if asked_at else at
    before = _S.QUEUED if row.attempt == 1 else None
    return _Fact(at, before, _S.RUNNING, row.attempt, row.actor, Reason.CLAIMED)


def _steps(execution: Row[Any], facts: list[_Fact], look_ahead: timedelta) -> list[Step]:
    promoted_at = execution.scheduled_at - look_ahead
    first = _S.PENDING if promoted_at > execution.created_at else _S.QUEUED
    steps = [Step(execution.created_at, None, first, 0, None, "CREATED")]
    for fact, later in zip(facts, [*facts[1:], None], strict=False):
        _fill(steps, fact.before, promoted_at, fact.at)
        after = fact.after or _outcome(later, _S(execution.after))
        reason = Reason.CANCEL_REQUESTED if fact.after is None and after is _S.CANCELLED else fact.reason
        steps.append(Step(fact.at, steps[-1].after, after, fact.attempt, fact.actor, str(reason)))
    _fill(steps, _S(execution.after), promoted_at, execution.at)
    return steps


def _outcome(later: _Fact | None, now: ExecutionStatus) -> ExecutionStatus:
    """Tell what a failed attempt led to, by what came after it or by the present state."""
    after = now if later is None else later.before
    return after if after in {_S.FAILED, _S.CANCELLED} else _S.RETRYING


def _fill(steps: list[Step], wanted: ExecutionStatus | None, promoted_at: datetime, latest: datetime | None) -> None:
    """Add the step to the state in which the next one found the execution, when nothing tells of it."""
    last = steps[-1]
    if wanted is None and last.after is _S.PENDING:
        wanted = _S.QUEUED  # a claim
    if wanted is None or wanted is last.after:
        return
    is_promotion = (last.after, wanted) == (_S.PENDING, _S.QUEUED)
    at = max(last.at, promoted_at) if is_promotion else latest or last.at
    at = min(at, latest) if latest else at
    actor, reason = ("scheduler", "PROMOTED") if is_promotion else (None, "UNRECORDED")
    steps.append(Step(at, last.after, wanted, last.attempt, actor, reason, is_estimated=True))
