"""History of an execution: every change of its state, merged from its row, its attempts and its events.

Attempts record claims and ends, events the changes that leave no attempt. What neither records (a promotion) is filled
in, at an instant that is estimated and marked as such.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row

from app.kernel.db import Database
from app.kernel.errors import ExecutionNotFoundError
from app.kernel.sql import statement
from app.queue.ending.execution_events import Reason
from schema.states import ExecutionStatus

MOST = 1000  # the latest attempts and the latest events; one more of each is read, to know that there are more

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
_WITHIN = frozenset({Reason.CANCEL_REQUESTED, Reason.ABORT_REQUESTED, Reason.SOFT_LIMIT})  # an attempt that had begun

_MOVES = frozenset({Reason.RUN_BY_HAND, Reason.RESCHEDULED})  # what has not begun has another plan from then on


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
    """The steps in order, and whether there are too many, so that some between the first and the latest are missing."""

    steps: list[Step]
    is_truncated: bool


@dataclass(frozen=True, slots=True)
class _Fact:
    """A recorded change. `after` is None for an end whose result only the next change shows."""

    at: datetime
    before: ExecutionStatus | None
    after: ExecutionStatus | None
    attempt: int
    actor: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class _Life:
    """The execution as it is now."""

    status: ExecutionStatus
    attempt: int
    worker_id: str | None
    started_at: datetime | None
    completed_at: datetime | None
    created_at: datetime
    scheduled_at: datetime


@dataclass(frozen=True, slots=True)
class _Record:
    """A row of an attempt, or of an event, which ends when it begins; `reason` is the attempt's error."""

    kind: str
    attempt: int
    before: ExecutionStatus | None
    after: ExecutionStatus
    began_at: datetime
    at: datetime
    actor: str | None
    reason: str | None


def history_of(database: Database, execution_id: str, *, look_ahead: timedelta) -> History:
    """Read the history of an execution; raises ExecutionNotFoundError."""
    rows = database.fetch(FACTS, {"execution_id": execution_id, "most": MOST})
    lives = [_life(row) for row in rows if row.kind == "execution"]
    if not lives:
        raise ExecutionNotFoundError.of(execution_id)
    records = [_record(row) for row in rows if row.kind != "execution"]
    told = _latest(records, "attempt") + _latest(records, "event")
    steps = _steps(lives[0], _facts(lives[0], told), look_ahead)
    return History(steps, is_truncated=len(told) < len(records))


def _life(row: Row[Any]) -> _Life:
    return _Life(_S(row.after), row.attempt, row.actor, row.started_at, row.at, row.created_at, row.scheduled_at)


def _record(row: Row[Any]) -> _Record:
    before = None if row.before is None else _S(row.before)
    at = row.at or row.started_at
    return _Record(row.kind, row.attempt, before, _S(row.after), row.started_at or at, at, row.actor, row.reason)


def _latest(records: Sequence[_Record], kind: str) -> list[_Record]:
    """Return the records of a kind, without the extra one that shows that there are more."""
    of_kind = [record for record in records if record.kind == kind]
    return sorted(of_kind, key=lambda record: (record.at, record.attempt))[-MOST:]


def _facts(life: _Life, records: Sequence[_Record]) -> list[_Fact]:
    facts = [_of_event(record) for record in records if record.kind == "event"]
    within = [fact for fact in facts if fact.reason in _WITHIN]
    noted = {fact.attempt: fact.at for fact in sorted(within, key=lambda fact: fact.at, reverse=True)}
    for record in records:
        if record.kind == "attempt":
            facts += _of_attempt(record, noted.get(record.attempt))
    if life.status is _S.RUNNING and life.started_at is not None:
        facts.append(_claim(life.started_at, life.attempt, life.worker_id, noted.get(life.attempt)))
    return sorted(facts, key=lambda fact: (fact.at, fact.attempt, fact.reason != Reason.CLAIMED))


def _of_event(event: _Record) -> _Fact:
    return _Fact(event.at, event.before, event.after, event.attempt, event.actor, event.reason or "")


def _of_attempt(tried: _Record, noted_at: datetime | None) -> list[_Fact]:
    by = "scheduler" if tried.reason in _RECLAIMED else tried.actor
    after = _S.SUCCESS if tried.after is _S.SUCCESS else None
    reason = tried.reason or ("DELIVERED" if after else "FAILED")
    end = _Fact(tried.at, _S.RUNNING, after, tried.attempt, by, reason)
    return [_claim(tried.began_at, tried.attempt, tried.actor, noted_at), end]


def _claim(at: datetime, attempt: int, worker_id: str | None, noted_at: datetime | None) -> _Fact:
    # An attempt starts when its instant comes, which may be a little after the claim.
    at = min(at, noted_at) if noted_at else at
    return _Fact(at, _S.QUEUED if attempt == 1 else None, _S.RUNNING, attempt, worker_id, Reason.CLAIMED)


def _steps(life: _Life, facts: list[_Fact], look_ahead: timedelta) -> list[Step]:
    promoted_at = life.scheduled_at - look_ahead
    first = _moved_from(facts) or (_S.PENDING if promoted_at > life.created_at else _S.QUEUED)
    steps = [Step(life.created_at, None, first, 0, None, "CREATED")]
    for fact, later in zip(facts, [*facts[1:], None], strict=False):
        _fill(steps, fact.before, promoted_at, fact.at)
        after = fact.after or _outcome(later, life.status)
        is_put_down_to_request = fact.after is None and after is _S.CANCELLED and fact.reason != "ABORTED"
        reason = Reason.CANCEL_REQUESTED if is_put_down_to_request else fact.reason
        steps.append(Step(fact.at, steps[-1].after, after, fact.attempt, fact.actor, str(reason)))
    _fill(steps, life.status, promoted_at, life.completed_at)
    return steps


def _moved_from(facts: list[_Fact]) -> ExecutionStatus | None:
    """Return the state that it was in before anything happened, where its plan says nothing of it: it was moved."""
    was_moved = any(fact.reason in _MOVES and fact.attempt == 0 for fact in facts)
    return facts[0].before if was_moved else None


def _outcome(later: _Fact | None, now: ExecutionStatus) -> ExecutionStatus:
    """Return what a failed attempt led to, by what came after it or by the present state."""
    after = now if later is None else later.before
    return after if after in {_S.FAILED, _S.CANCELLED} else _S.RETRYING


def _fill(steps: list[Step], wanted: ExecutionStatus | None, promoted_at: datetime, latest: datetime | None) -> None:
    """Add the missing step to the state in which the next one found the execution, where none is recorded."""
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
