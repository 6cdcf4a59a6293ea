"""Outbox: a row for each subscribed completion event, inserted in the transaction of the end.

A row leaves the outbox once, in the transaction of its handlers. A locked row is being handled. The DELETE, not the
lock, decides the process: of two transactions that delete a row only one continues with it.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row

from app.kernel.db import Database
from app.kernel.formats import array_literal
from app.kernel.sql import hot_statement, statement
from app.queue.ending.execution_events import ChangeReason, StateChange
from app.queue.ending.subscriptions import is_followed
from schema.states import ExecutionStatus, Followed


def put_ends_of(
    ended: str, *, end_id: str, attempt: str, at: str, rejected: str = "false", reason: str = "", when: str = "true"
) -> str:
    """Return the INSERT of the subscribed events of the rows of `ended`; it returns their `end_id`.

    `ended` is a CTE of executions with their shard, endpoint, status and `followed`. The other arguments are SQL
    expressions. Without a `reason` an attempt ended, and its id is the id of the event; `when` selects ended rows.
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
# For rare operations, which need more than one statement.
PUT = statement(
    "execution_ends.put",
    """
    WITH ended AS (
      SELECT e.execution_id, e.shard, e.endpoint, e.status, e.followed, e.completed_at, u.event_id, u.attempt
        FROM unnest(CAST(:events AS TEXT[]), CAST(:ids AS TEXT[]), CAST(:attempts AS BIGINT[]))
             AS u (event_id, execution_id, attempt)
        JOIN executions AS e ON e.execution_id = u.execution_id
       WHERE e.execution_id = ANY (CAST(:ids AS TEXT[])) AND COALESCE(e.completed_at IS NOT NULL, false))
    {ended}
    """,
    ended=_ENDED,
)

_COLUMNS = """end_id, shard, execution_id, endpoint, status, attempt, followed, is_rejected, reason, ended_at, tries,
              effects_left"""
# Rows that failed before are tried alone: they may fail again, and the whole batch with them. An array of the found
# rows instead of a join: the planner expects one row, and would compare each with each other.
TAKE = statement(
    "execution_ends.take",
    """
    WITH found AS MATERIALIZED (
      SELECT end_id FROM execution_ends
       WHERE end_id = ANY (CAST(:ids AS TEXT[])) AND tries = 0
       ORDER BY end_id LIMIT :limit FOR UPDATE SKIP LOCKED)
    DELETE FROM execution_ends
     WHERE end_id = ANY (CAST(:ids AS TEXT[])) AND end_id = ANY (ARRAY(SELECT end_id FROM found)) AND tries = 0
    RETURNING {columns}
    """,
    columns=_COLUMNS,
)
# The writer handles its row at once; other processes leave it alone for a second.
DUE = statement(
    "execution_ends.due",
    """
    SELECT due_at, end_id, tries FROM execution_ends
     WHERE shard = :shard AND due_at < now() - INTERVAL '1 second'
       AND (due_at, end_id) > (CAST(:at AS TIMESTAMPTZ), CAST(:id AS TEXT))
     ORDER BY due_at, end_id LIMIT :limit
    """,
)
# Each shard is asked from its mark: on CockroachDB the entries of handled rows stay at the front of the index for
# `gc.ttlseconds`. Shards beyond `:last` are in no process's setting any more, and have few entries.
WAITING = hot_statement(
    "execution_ends.waiting",
    """
    SELECT now() - INTERVAL '1 second' AS until,
           ARRAY(SELECT u.shard
                   FROM unnest(CAST(:shards AS BIGINT[]), CAST(:since AS TIMESTAMPTZ[])) AS u (shard, since)
                  WHERE EXISTS (SELECT 1 FROM execution_ends AS e
                                 WHERE e.shard = u.shard AND e.due_at >= u.since
                                   AND e.due_at < now() - INTERVAL '1 second')
                  ORDER BY u.shard) AS shards,
           (SELECT shard FROM execution_ends WHERE shard > CAST(:last AS BIGINT)
             ORDER BY shard, due_at, end_id LIMIT 1) AS beyond
    """,
)
LOCK_ONE = statement(
    "execution_ends.lock_one",
    """
    WITH found AS MATERIALIZED (
      SELECT {columns} FROM execution_ends WHERE end_id = :id ORDER BY end_id LIMIT 1 FOR UPDATE SKIP LOCKED)
    SELECT * FROM found
    """,
    columns=_COLUMNS,
)
DELETE_ONE = statement(
    "execution_ends.delete_one", "DELETE FROM execution_ends WHERE end_id = :id AND tries = :tries RETURNING end_id"
)
PUT_OFF = statement(
    "execution_ends.defer",
    """
    UPDATE execution_ends
       SET tries = tries + 1, effects_left = CAST(:left AS JSONB),
           due_at = now() + CAST(:delay_ms AS BIGINT) * INTERVAL '1 millisecond'
     WHERE end_id = :id AND tries = :tries
    RETURNING end_id
    """,
)


def put_ends(connection: Connection, changes: Sequence[StateChange], reason: ChangeReason) -> None:
    """Insert the subscribed events of executions that ended in this transaction without an attempt."""
    if changes:
        params = {
            "events": [change.event_id for change in changes],
            "ids": [change.execution_id for change in changes],
            "attempts": [change.attempt for change in changes],
            "reason": reason.value,
        }
        connection.execute(PUT, params)


class End(NamedTuple):
    """A completion event: the end of an attempt or of an execution.

    `status` is the state of the execution afterwards: RETRYING if an attempt has failed and a further attempt follows.
    With a `reason` it ended without an attempt, and `attempt` is the number of the last one; a later release may have
    further reasons than ChangeReason. `followed` are the events to which the execution is subscribed. With
    `is_rejected` the retry policy rejected the failure, so that it leaves no dead letter. `ended_at` is by the clock of
    the database. `tries` counts earlier tries of handlers that failed, and `effects_left` names the handlers left;
    None: all.
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
    effects_left: list[str] | None

    @classmethod
    def of_row(cls, row: Row[Any]) -> "End":
        """Build from a row with the columns in the order of the fields.

        Handlers that cannot be read are all handlers: an event must not stop the outbox.
        """
        end_id, shard, execution_id, endpoint, status, attempt, followed, is_rejected, reason, at, tries, left = row
        return cls(
            end_id,
            shard,
            execution_id,
            endpoint,
            ExecutionStatus(status),
            attempt,
            Followed(followed),
            is_rejected,
            reason,
            at,
            tries,
            left if isinstance(left, list) else None,
        )

    @property
    def is_final(self) -> bool:
        return self.status is not ExecutionStatus.RETRYING

    @property
    def has_failed_attempt(self) -> bool:
        """Whether an attempt ended without success."""
        return self.reason is None and self.status is not ExecutionStatus.SUCCESS


class DueEvent(NamedTuple):
    """A due row of the outbox, and the number of its failures."""

    due_at: datetime
    end_id: str
    tries: int


class Waiting(NamedTuple):
    """Shards with due rows, the instant up to which they are known, and the first higher shard that has rows."""

    until: datetime
    shards: list[int]
    beyond: int | None


def waiting(database: Database, since: Mapping[int, datetime]) -> Waiting:
    """Find shards with rows that have been due for a second, in each shard from `since` on."""
    params = {"shards": list(since), "since": list(since.values()), "last": max(since, default=-1)}
    (row,) = database.fetch(WAITING, params)
    return Waiting(*row)


def due_ends(database: Database, shard: int, *, after: DueEvent, limit: int) -> list[DueEvent]:
    """Read the next `limit` rows of a shard that have been due for a second, in this order."""
    params = {"shard": shard, "at": after.due_at, "id": after.end_id, "limit": limit}
    return [DueEvent(*row) for row in database.fetch(DUE, params)]


def take(connection: Connection, end_ids: Collection[str]) -> list[End]:
    """Delete and return rows that no other process handles and that have not failed before, the oldest first."""
    rows = connection.execute(TAKE, {"ids": array_literal(sorted(end_ids)), "limit": len(end_ids)})
    return sorted(map(End.of_row, rows), key=attrgetter("ended_at", "end_id"))


def lock_one(connection: Connection, end_id: str) -> End | None:
    """Lock and read a row; None when it is gone, or another process handles it."""
    row = connection.execute(LOCK_ONE, {"id": end_id}).first()
    return None if row is None else End.of_row(row)


def leave(connection: Connection, end: End, left: Collection[str], delay_ms: int) -> bool:
    """Delete a row, or keep it for the handlers `left` and a later try; return false when it has changed."""
    params: dict[str, object] = {"id": end.end_id, "tries": end.tries}
    if not left:
        return connection.execute(DELETE_ONE, params).first() is not None
    params |= {"left": json.dumps(sorted(left)), "delay_ms": delay_ms}
    return connection.execute(PUT_OFF, params).first() is not None
