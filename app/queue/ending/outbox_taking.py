"""Taking rows of the outbox: each leaves it once, in the transaction of its effects.

A row that somebody has locked is being handled. Not the lock but the DELETE says by whom: of two transactions that
delete one row only one goes on with it.
"""

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from sqlalchemy import Connection

from app.kernel.db import Database
from app.kernel.sql import statement
from app.queue.ending.outbox_rows import End

_COLUMNS = """end_id, shard, execution_id, endpoint, status, attempt, followed, is_rejected, reason, ended_at, tries,
              effects_left"""
# What has failed before is tried alone: it may fail again, and all others with it.
TAKE = statement(
    "execution_ends.take",
    f"""
    WITH found AS MATERIALIZED (
      SELECT end_id FROM execution_ends
       WHERE end_id = ANY (CAST(:ids AS TEXT[])) AND tries = 0
       ORDER BY end_id LIMIT :limit FOR UPDATE SKIP LOCKED)
    DELETE FROM execution_ends
     WHERE end_id = ANY (CAST(:ids AS TEXT[])) AND end_id IN (SELECT end_id FROM found) AND tries = 0
    RETURNING {_COLUMNS}
    """,  # noqa: S608 - a constant of this module
)
# Whoever wrote it handles it at once; others leave it alone for a second.
DUE = statement(
    "execution_ends.due",
    """
    SELECT due_at, end_id, tries FROM execution_ends
     WHERE shard = :shard AND due_at < now() - INTERVAL '1 second'
       AND (due_at, end_id) > (CAST(:at AS TIMESTAMPTZ), CAST(:id AS TEXT))
     ORDER BY due_at, end_id LIMIT :limit
    """,
)
# Whatever shards a setting knows of: there may be rows of one that is no longer used.
NEXT_SHARD = statement(
    "execution_ends.next_shard",
    "SELECT shard FROM execution_ends WHERE shard > :after ORDER BY shard, due_at, end_id LIMIT 1",
)
LOCK_ONE = statement(
    "execution_ends.lock_one",
    f"""
    WITH found AS MATERIALIZED (
      SELECT {_COLUMNS} FROM execution_ends WHERE end_id = :id ORDER BY end_id LIMIT 1 FOR UPDATE SKIP LOCKED)
    SELECT * FROM found
    """,  # noqa: S608 - a constant of this module
)
DELETE_ONE = statement(
    "execution_ends.delete_one", "DELETE FROM execution_ends WHERE end_id = :id AND tries = :tries RETURNING end_id"
)
PUT_OFF = statement(
    "execution_ends.put_off",
    """
    UPDATE execution_ends
       SET tries = tries + 1, effects_left = CAST(:left AS JSONB),
           due_at = now() + CAST(:delay_ms AS BIGINT) * INTERVAL '1 millisecond'
     WHERE end_id = :id AND tries = :tries
    RETURNING end_id
    """,
)


class DueEvent(NamedTuple):
    """A row of the outbox that is due, in the order in which it became so, and how often it has failed."""

    due_at: datetime
    end_id: str
    tries: int


def shards_with_ends(database: Database) -> list[int]:
    """Return the shards that have rows in the outbox."""
    found: list[int] = []
    while row := next(iter(database.fetch(NEXT_SHARD, {"after": found[-1] if found else -1})), None):
        found.append(row.shard)
    return found


def due_ends(database: Database, shard: int, *, after: DueEvent, limit: int) -> list[DueEvent]:
    """Read the next `limit` rows of a shard that have been due for a second."""
    params = {"shard": shard, "at": after.due_at, "id": after.end_id, "limit": limit}
    return [DueEvent(*row) for row in database.fetch(DUE, params)]


def take(connection: Connection, end_ids: Collection[str]) -> list[End]:
    """Take those of these rows that nobody else is handling and that have not failed before, the oldest first."""
    rows = connection.execute(TAKE, {"ids": sorted(end_ids), "limit": len(end_ids)})
    return sorted(map(End.from_row, rows), key=attrgetter("ended_at", "end_id"))


def lock_one(connection: Connection, end_id: str) -> End | None:
    """Read a row and keep others from handling it; None when it is gone, or somebody is handling it."""
    row = connection.execute(LOCK_ONE, {"id": end_id}).first()
    return None if row is None else End.from_row(row)


def delete(connection: Connection, end: End) -> bool:
    """Delete a row that was read; returns false when it is no longer as it was."""
    return connection.execute(DELETE_ONE, {"id": end.end_id, "tries": end.tries}).first() is not None


def put_off(connection: Connection, end: End, *, left: Sequence[str], delay_ms: int) -> bool:
    """Keep a row for these effects, to be tried again in so many milliseconds; returns false as `delete` does."""
    params = {"id": end.end_id, "tries": end.tries, "left": json.dumps(sorted(left)), "delay_ms": delay_ms}
    return connection.execute(PUT_OFF, params).first() is not None
