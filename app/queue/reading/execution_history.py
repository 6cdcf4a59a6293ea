"""History of an execution: its state changes, merged from its row, its attempts and its events.

Attempts record claims and ends; events record changes without an attempt. A change that neither records, such as a
promotion, is inserted at an estimated instant and marked as estimated.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Row

from app.kernel.db import Database
from app.kernel.errors import ExecutionNotFoundError
from app.kernel.sql import statement
from app.queue.ending.execution_events import ChangeReason
from app.queue.reading.attempt_rows import ALL_ATTEMPTS
from schema.states import ExecutionStatus

MAX_RECORDS = 1000  # latest attempts, and latest events; one more of each is read to detect truncation

# One statement, for a consistent snapshot.
FACTS = statement(
    "executions.history",
    """
    WITH tried AS (
      SELECT attempt_number, status, started_at, completed_at, worker_id, error ->> 'type' AS error
        FROM {attempts} AS tries
       WHERE execution_id = :execution_id ORDER BY attempt_number DESC LIMIT CAST(:most AS BIGINT) + 1),
    noted AS (
      SELECT attempt_number, from_status, to_status, occurred_at, actor, reason FROM execution_events
       WHERE execution_id = :execution_id ORDER BY occurred_at DESC, event_id DESC LIMIT CAST(:most AS BIGINT) + 1)
    SELECT 'execution' AS kind, attempt_count AS attempt, CAST(NULL AS TEXT) AS before, status AS after,
           started_at, completed_at AS at, worker_id AS actor, CAST(NULL AS TEXT) AS reason, created_at, scheduled_at
      FROM executions WHERE execution_id = :execution_id
    UNION ALL
    SELECT 'attempt', attempt_number, NULL, status, started_at, COALESCE(completed_at, started_at), worker_id, error,
           NULL, NULL FROM tried
    UNION ALL
    SELECT 'event', attempt_number, from_status, to_status, NULL, occurred_at, actor, reason, NULL, NULL FROM noted
    """,
    attempts=ALL_ATTEMPTS,
)

_S = ExecutionStatus
_RECLAIMED = frozenset({"WORKER_LOST", "STUCK"})
# Events during an attempt.
_WITHIN = frozenset(
    {
        ChangeReason.CANCEL_REQUESTED,
        ChangeReason.ABORT_REQUESTED,
        ChangeReason.SOFT_LIMIT,
        ChangeReason.ACTOR_STARTED,
    }
)
# Events that change the planned time of an execution that has not begun.
_MOVES = frozenset({ChangeReason.RUN_BY_HAND, ChangeReason.RESCHEDULED})


class HistoryStep(NamedTuple):
    """One state change; `attempt` is the number of the latest attempt begun by then, 0 before the first."""

    at: datetime
    before: ExecutionStatus | None
    after: ExecutionStatus
    attempt: int
    actor: str | None
    reason: str
    is_estimated: bool = False


class ExecutionHistory(NamedTuple):
    """State changes in order; if truncated, changes between the first and the latest are missing."""

    steps: list[HistoryStep]
    is_truncated: bool


class _Fact(NamedTuple):
    """Recorded state change; `after` is None for the end of an attempt if only the next change shows its result."""

    at: datetime
    before: ExecutionStatus | None
    after: ExecutionStatus | None
    attempt: int
    actor: str | None
    reason: str


def history_of(
    database: Database, execution_id: str, *, look_ahead: timedelta, most: int = MAX_RECORDS
) -> ExecutionHistory:
    """Read the history of an execution; raises ExecutionNotFoundError."""
    rows = database.fetch(FACTS, {"execution_id": execution_id, "most": most})
    life = next((row for row in rows if row.kind == "execution"), None)
    if life is None:
        raise ExecutionNotFoundError.of(execution_id)
    attempts, events = (
        sorted((row for row in rows if row.kind == kind), key=attrgetter("at", "attempt"))[-most:]
        for kind in ("attempt", "event")
    )
    steps = _steps(life, _facts(life, attempts, events), look_ahead)
    return ExecutionHistory(steps, is_truncated=1 + len(attempts) + len(events) < len(rows))


def _facts(life: Row[Any], attempts: Sequence[Row[Any]], events: Sequence[Row[Any]]) -> list[_Fact]:
    facts = [_Fact(row.at, _S(row.before), _S(row.after), row.attempt, row.actor, row.reason) for row in events]
    within = [fact for fact in facts if fact.reason in _WITHIN]
    noted = {fact.attempt: fact.at for fact in sorted(within, key=attrgetter("at"), reverse=True)}
    for row in attempts:
        facts += _of_attempt(row, noted.get(row.attempt))
    if life.after == _S.RUNNING and life.started_at is not None:
        facts.append(_claim(life, noted.get(life.attempt)))
    return sorted(facts, key=lambda fact: (fact.at, fact.attempt, fact.reason != ChangeReason.CLAIMED))


def _of_attempt(tried: Row[Any], noted_at: datetime | None) -> list[_Fact]:
    by = "scheduler" if tried.reason in _RECLAIMED else tried.actor
    after = _S.SUCCESS if tried.after == _S.SUCCESS else None
    reason = tried.reason or ("DELIVERED" if after else "FAILED")
    return [_claim(tried, noted_at), _Fact(tried.at, _S.RUNNING, after, tried.attempt, by, reason)]


def _claim(row: Row[Any], noted_at: datetime | None) -> _Fact:
    # An attempt starts at its due time, which may be shortly after the claim.
    at = min(row.started_at, noted_at) if noted_at else row.started_at
    return _Fact(at, _S.QUEUED if row.attempt == 1 else None, _S.RUNNING, row.attempt, row.actor, ChangeReason.CLAIMED)


def _steps(life: Row[Any], facts: list[_Fact], look_ahead: timedelta) -> list[HistoryStep]:
    promoted_at, status = life.scheduled_at - look_ahead, _S(life.after)
    # A change of the planned time also changes `scheduled_at`; the first event then has the initial state.
    was_moved = any(fact.reason in _MOVES and fact.attempt == 0 for fact in facts)
    first = (facts[0].before if was_moved else None) or (_S.PENDING if promoted_at > life.created_at else _S.QUEUED)
    steps = [HistoryStep(life.created_at, None, first, 0, None, "CREATED")]
    for fact, later in zip(facts, [*facts[1:], None], strict=False):
        _fill(steps, fact.before, promoted_at, fact.at)
        following = status if later is None else later.before
        after = fact.after or (following if following in {_S.FAILED, _S.CANCELLED} else _S.RETRYING)
        is_put_down_to_request = fact.after is None and after is _S.CANCELLED and fact.reason != "ABORTED"
        reason = ChangeReason.CANCEL_REQUESTED if is_put_down_to_request else fact.reason
        steps.append(HistoryStep(fact.at, steps[-1].after, after, fact.attempt, fact.actor, str(reason)))
    _fill(steps, status, promoted_at, life.at)
    return steps


def _fill(
    steps: list[HistoryStep], wanted: ExecutionStatus | None, promoted_at: datetime, latest: datetime | None
) -> None:
    """Add an unrecorded state change if the next change starts from another state."""
    last = steps[-1]
    if wanted is None and last.after is _S.PENDING:
        wanted = _S.QUEUED  # a claim
    if wanted is None or wanted is last.after:
        return
    is_promotion = (last.after, wanted) == (_S.PENDING, _S.QUEUED)
    at = max(last.at, promoted_at) if is_promotion else latest or last.at
    at = min(at, latest) if latest else at
    actor, reason = ("scheduler", "PROMOTED") if is_promotion else (None, "UNRECORDED")
    steps.append(HistoryStep(at, last.after, wanted, last.attempt, actor, reason, is_estimated=True))
