"""Statements of bulk jobs, for each table of bulk jobs.

A table has the key `{key}`, and `{done}` counts the processed rows; all other columns have the same names.
"""

from typing import NamedTuple

from app.kernel.db.deletion import deletion
from app.kernel.sql import NamedStatement, hot_statement, statement

_RUNNING = """
    SELECT {key} AS id FROM {table} WHERE status = 'RUNNING' ORDER BY held_until NULLS FIRST, {key} LIMIT :limit
    """
_ANY_RUNNING = "SELECT {key} FROM {table} WHERE status = 'RUNNING' ORDER BY {key} LIMIT 1"
_HOLD = """
    UPDATE {table} SET holder = :holder, held_until = now() + CAST(:seconds AS BIGINT) * INTERVAL '1 second'
     WHERE {key} = :id AND status = 'RUNNING'
       AND (holder = :holder OR held_until IS NULL OR held_until < now())
    RETURNING {key}
    """
# The cursor is the fence: if two schedulers hold a bulk job because one stalled, only the first to move the cursor
# changes rows. A repeated transaction whose first run was committed changes nothing either.
_IS_HERE = """status = 'RUNNING'
       AND COALESCE(reached_at, CAST(:epoch AS TIMESTAMPTZ)) = CAST(:before_at AS TIMESTAMPTZ)
       AND reached_id = CAST(:before_id AS TEXT)"""
_LOCK = "SELECT {key} FROM {table} WHERE {key} = :id AND {is_here} FOR UPDATE"
_ADVANCE = """
    UPDATE {table}
       SET {done} = {done} + CAST(:done AS BIGINT), refused = refused + CAST(:refused AS BIGINT),
           last_refusal = COALESCE(CAST(:refusal AS TEXT), last_refusal), reached_at = :reached_at,
           reached_id = :reached_id, holder = :holder,
           status = CASE WHEN CAST(:is_last AS BOOLEAN) THEN 'DONE' ELSE status END,
           ended_at = CASE WHEN CAST(:is_last AS BOOLEAN) THEN now() END,
           held_until = CASE WHEN CAST(:is_last AS BOOLEAN) THEN NULL
                             ELSE now() + CAST(:seconds AS BIGINT) * INTERVAL '1 second' END
     WHERE {key} = :id AND {is_here}
    RETURNING {key}
    """
# Ends the hold; `flask doctor` reads from held_until since when the bulk job waits.
_CHANGE = """
    UPDATE {table}
       SET status = :status, held_until = now() - INTERVAL '1 millisecond',
           ended_at = CASE WHEN CAST(:status AS TEXT) IN ('STOPPED', 'DONE') THEN now() END
     WHERE {key} = :id AND status IN ('RUNNING', 'PAUSED')
    RETURNING {key}
    """


class BulkJobStatements(NamedTuple):
    """Statements of one table: `lock` and `advance` return no row unless the cursor is the expected one."""

    running: NamedStatement
    any_running: NamedStatement
    hold: NamedStatement
    lock: NamedStatement
    advance: NamedStatement
    change: NamedStatement
    prune: NamedStatement

    @classmethod
    def of(cls, table: str, *, key: str, done: str) -> "BulkJobStatements":
        """Register the statements of a table as `<table>.running` and so on."""
        return cls(
            running=hot_statement(f"{table}.running", _RUNNING, table=table, key=key),
            any_running=statement(f"{table}.any_running", _ANY_RUNNING, table=table, key=key),
            hold=statement(f"{table}.hold", _HOLD, table=table, key=key),
            lock=statement(f"{table}.lock", _LOCK, table=table, key=key, is_here=_IS_HERE),
            advance=statement(f"{table}.advance", _ADVANCE, table=table, key=key, done=done, is_here=_IS_HERE),
            change=statement(f"{table}.change", _CHANGE, table=table, key=key),
            prune=deletion(
                f"{table}.prune",
                table,
                [key],
                "ended_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'",
                time="created_at",
            ),
        )
