"""Online changes: operations that a revision may run on a table while jobs flow through it.

On PostgreSQL an index is built CONCURRENTLY, and a constraint is added NOT VALID and then validated: neither blocks a
claim. CockroachDB does both online by itself. Each operation may be repeated, also after an interruption. Operations
find existing objects by name, so a changed object gets a new name, and the old object is dropped afterwards.
"""

import logging
import time
from collections.abc import Sequence

from alembic import op
from sqlalchemy import TextClause, text
from sqlalchemy.exc import DBAPIError

from schema.session import LOCK_TIMEOUT_MS

log = logging.getLogger(__name__)

_NOT_PERMITTED = {"42501", "0A000"}  # no privilege; not for tenants of a shared cluster
_IS_INDEX_VALID = text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)")
_IS_BEING_BUILT = text(
    "SELECT true FROM pg_stat_progress_create_index "
    "WHERE datname = current_database() AND index_relid = to_regclass(:name)"
)
_IS_CONSTRAINT_VALID = text(
    "SELECT convalidated FROM pg_constraint WHERE conname = :name AND conrelid = to_regclass(:table)"
)
_REFERRED_TABLE = text(
    "SELECT confrelid::regclass::text FROM pg_constraint "
    "WHERE conname = :name AND conrelid = to_regclass(:table) AND contype = 'f'"
)


def is_cockroach() -> bool:
    """Return whether the revision runs on CockroachDB; only physical tuning may depend on it."""
    return op.get_context().dialect.name == "cockroachdb"


def add_column(table: str, name: str, definition: str) -> None:
    """Add a column, such as `("jobs", "name", "TEXT")`; a NOT NULL column needs a constant DEFAULT."""
    _alter(table, f"ADD COLUMN IF NOT EXISTS {name} {definition}")


def drop_column(table: str, name: str) -> None:
    """Drop a column, if it exists; no process of the previous release may name the column."""
    _alter(table, f"DROP COLUMN IF EXISTS {name}")


def create_index(
    name: str,
    table: str,
    columns: Sequence[str],
    *,
    unique: bool = False,
    using: str = "btree",
    where: str | None = None,
    leads_with_time: bool = False,
) -> None:
    """Create an index; an index that was left half-built is rebuilt.

    On CockroachDB an index that leads with a time gets a hash in front; otherwise one range would take all its writes.
    """
    kind = "UNIQUE INDEX" if unique else "INDEX"
    how = "" if is_cockroach() else " CONCURRENTLY"
    key = f"({', '.join(columns)})"
    key = f"{key} USING HASH" if leads_with_time and is_cockroach() else f"USING {using} {key}"
    condition = f" WHERE {where}" if where else ""
    statement = f"CREATE {kind}{how} IF NOT EXISTS {name} ON {table} {key}{condition}"
    if is_cockroach():
        _execute(statement)
    else:
        _build(name, statement)


def drop_index(name: str) -> None:
    """Drop an index, if it exists."""
    if is_cockroach():
        _execute(f"DROP INDEX IF EXISTS {name}")
    else:
        _execute_unhurried(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")


def add_check(table: str, name: str, condition: str) -> None:
    """Add a CHECK; raises the database's error if a row violates it."""
    _add_constraint(table, name, f"CHECK ({condition})")


def add_foreign_key(table: str, name: str, columns: Sequence[str], to: str, to_columns: Sequence[str]) -> None:
    """Add a foreign key; raises the database's error if a row violates it."""
    _add_constraint(table, name, f"FOREIGN KEY ({', '.join(columns)}) REFERENCES {to} ({', '.join(to_columns)})", to)


def drop_constraint(table: str, name: str) -> None:
    """Drop a CHECK or a foreign key, if it exists."""
    referred = None if is_cockroach() else _first(_REFERRED_TABLE, name=name, table=table)
    _alter(table, f"DROP CONSTRAINT IF EXISTS {name}", *([str(referred)] if referred else []))


def set_storage(table: str, change: str) -> None:
    """Change the storage parameters of a table on PostgreSQL.

    Neither reads nor writes queue behind the lock, and an autovacuum yields to a lock request after a second.
    """
    _execute_unhurried(f"ALTER TABLE {table} {change}")


def execute_if_permitted(statement: str) -> None:
    """Execute a statement that only improves performance; without the privilege, log a warning and continue."""
    try:
        _execute(statement)
    except DBAPIError as error:
        if getattr(error.orig, "pgcode", None) not in _NOT_PERMITTED:
            raise
        reason = str(error.orig).partition("\n")[0]
        log.warning("skipped a statement: %s; have a user with the privilege run: %s", reason, statement)


def _build(name: str, statement: str) -> None:
    # An interrupted CREATE INDEX CONCURRENTLY leaves an invalid index, which IF NOT EXISTS accepts.
    while True:
        # In this order: when no build is running, the second answer is final. A build may still run in the server
        # process of a migrator that died.
        if _first(_IS_BEING_BUILT, name=name):
            time.sleep(0.2)
            continue
        is_valid = _first(_IS_INDEX_VALID, name=name)
        if is_valid:
            return
        if is_valid is False:
            drop_index(name)
        _execute_unhurried(statement)


def _add_constraint(table: str, name: str, definition: str, *referred: str) -> None:
    if is_cockroach():
        _execute(f"ALTER TABLE {table} ADD CONSTRAINT IF NOT EXISTS {name} {definition}")
        return
    is_valid = _first(_IS_CONSTRAINT_VALID, name=name, table=table)
    if is_valid is None:
        _alter(table, f"ADD CONSTRAINT {name} {definition} NOT VALID", *referred)
    if not is_valid:
        _execute_unhurried(f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}")


def _alter(table: str, change: str, *referred: str) -> None:
    """Change a table; the change also locks the tables of `referred`.

    PostgreSQL cancels an autovacuum after a lock request has waited for a second, which is longer than LOCK_TIMEOUT_MS.
    So the first lock waits without a limit: it conflicts with vacuums, but with neither reads nor writes of rows.
    """
    statement = f"ALTER TABLE {table} {change}"
    if not is_cockroach():
        lock = f"LOCK TABLE {', '.join((table, *referred))} IN SHARE UPDATE EXCLUSIVE MODE"
        # PostgreSQL runs statements that are sent together in one transaction.
        statement = f"SET LOCAL lock_timeout = 0; {lock}; SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}; {statement}"
    _execute(statement)


def _execute_unhurried(statement: str) -> None:
    """Execute a statement that may wait for hours: readers and writers of rows never queue behind its locks."""
    _execute("SET lock_timeout = 0")
    _execute(statement)
    _execute(f"SET lock_timeout = {LOCK_TIMEOUT_MS}")


def _execute(statement: str) -> None:
    op.execute(text(statement.replace(":", r"\:")))  # a colon in a condition begins no parameter


def _first(query: TextClause, **params: str) -> object:
    return op.get_bind().execute(query, params).scalar()
