"""Outbox: a row for each end that somebody follows, written in the transaction of the end, handled by `app.outbox`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from app.kernel.sql import statement
from app.queue.ending.execution_events import ChangeReason, StateChange
from app.queue.ending.subscriptions import is_followed
from schema.states import ExecutionStatus, Followed


def put_ends_of(
    ended: str, *, end_id: str, attempt: str, at: str, rejected: str = "false", reason: str = "", when: str = "true"
) -> str:
    """Return the INSERT of those rows of `ended` that are followed; it returns their `end_id`.

    `ended` is a CTE of executions with their shard, endpoint, status and `followed`. The other arguments are SQL
    expressions: without a `reason` an attempt ended, which is the end's id then; `when` says which rows have ended.
    """
    condition = is_followed(ended, by_attempt=not reason, rejected=rejected)
    return f"""
      INSERT INTO execution_ends (end_id, shard, execution_id, endpoint, status, attempt, followed, is_rejected, reason,
                                  ended_at)
      SELECT {end_id}, {ended}.shard, {ended}.execution_id, {ended}.endpoint, {ended}.status, {attempt},
             COALESCE({ended}.followed, 0), {rejected}, {reason or "NULL"}, {at}
        FROM {ended} WHERE {when} AND {condition}
      RETURNING end_id"""  # noqa: S608 - parts of statements, composed at import


_ENDED = put_ends_of(
    "ended", end_id="ended.event_id", attempt="ended.attempt", at="ended.completed_at", reason="CAST(:reason AS TEXT)"
)
# For the rare operations, which need more than one statement.
PUT = statement(
    "execution_ends.put",
    f"""
    WITH ended AS (
      SELECT e.execution_id, e.shard, e.endpoint, e.status, e.followed, e.completed_at, u.event_id, u.attempt
        FROM unnest(CAST(:events AS TEXT[]), CAST(:ids AS TEXT[]), CAST(:attempts AS BIGINT[]))
             AS u (event_id, execution_id, attempt)
        JOIN executions AS e ON e.execution_id = u.execution_id
       WHERE e.execution_id = ANY (CAST(:ids AS TEXT[])) AND COALESCE(e.completed_at IS NOT NULL, false))
    {_ENDED}
    """,  # noqa: S608 - constants of this package
)


def put_ends(connection: Connection, changes: Sequence[StateChange], reason: ChangeReason) -> None:
    """Put those of the executions that ended in this transaction, without an attempt, and that are followed."""
    if changes:
        params = {
            "events": [change.event_id for change in changes],
            "ids": [change.execution_id for change in changes],
            "attempts": [change.attempt for change in changes],
            "reason": reason.value,
        }
        connection.execute(PUT, params)


@dataclass(frozen=True, slots=True)
class End:
    """The end of an attempt or of an execution.

    With the status RETRYING an attempt has failed, and another one follows. `attempt` is the number of the attempt that
    ended, or the one before where the execution ended for a `reason` that is no attempt's: a later release may have
    others than Reason. `effects_left` are the names of what is still to be done, None for all.
    """

    end_id: str
    shard: int
    execution_id: str
    endpoint: str
    status: ExecutionStatus
    attempt: int
    followed: Followed
    is_rejected: bool
    reason: str | None
    ended_at: datetime
    tries: int
    effects_left: frozenset[str] | None

    @classmethod
    def from_row(cls, row: Row[Any]) -> "End":
        """Take the fields out of a row that has a column for each."""
        return cls(
            end_id=row.end_id,
            shard=row.shard,
            execution_id=row.execution_id,
            endpoint=row.endpoint,
            status=ExecutionStatus(row.status),
            attempt=row.attempt,
            followed=Followed(row.followed),
            is_rejected=row.is_rejected,
            reason=row.reason,
            ended_at=row.ended_at,
            tries=row.tries,
            effects_left=frozenset(row.effects_left) if isinstance(row.effects_left, list) else None,
        )

    @property
    def is_final(self) -> bool:
        """Whether the execution is over."""
        return self.status is not ExecutionStatus.RETRYING

    @property
    def has_failed_attempt(self) -> bool:
        """Whether an attempt ended with it, and not in success."""
        return self.reason is None and self.status is not ExecutionStatus.SUCCESS
