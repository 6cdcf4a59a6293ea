"""Databases that are cleared after a test and lent again, which costs the server a fifth of a new copy."""

import time
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg2
from psycopg2 import sql

from schema.creation import FIRST_ROWS
from schema.tables import metadata

# What a change of the schema, of a setting or of the planner's statistics changes; sums are enough, because a changed
# row of the catalog gets the number of a later transaction.
_CATALOGS = ("pg_class", "pg_attribute", "pg_constraint", "pg_trigger", "pg_proc", "pg_namespace")
_XMINS = ", ".join(f"(SELECT sum(CAST(CAST(xmin AS TEXT) AS BIGINT)) FROM {each})" for each in _CATALOGS)
_STATE = f"""
SELECT (SELECT min(version_num) FROM alembic_version),
       (SELECT sum(reltuples) + sum(relpages) FROM pg_class WHERE relnamespace = 'public'::regnamespace),
       (SELECT count(*) FROM pg_db_role_setting AS s JOIN pg_database AS d ON d.oid = s.setdatabase
         WHERE d.datname = current_database()),
       {_XMINS}
"""
_OTHERS = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
   AND pid <> ALL (%s) AND backend_type = 'client backend'
"""
_SIZES = """
SELECT relname, pg_relation_size(oid) FROM pg_class
 WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
"""
_TABLES = [table.name for table in reversed(metadata.sorted_tables)]  # referring tables first
_MAX_BYTES = 64 * 1024
"""Size of a table above which its dead rows could change what later tests measure."""
MAX_USES = 20
_LEAVE_SECONDS = 0.2
"""Time for the server to end the connections that a test has closed."""


class Cleaner:
    """Clears the copies of one template, if a test has left them like a new copy except for a few rows."""

    def __init__(self, template_url: str) -> None:
        self._uses = Counter[str]()
        self._connections: dict[str, Any] = {}  # they stay open: to connect takes longer than to clear
        with closing(connected(template_url)) as connection, connection.cursor() as cursor:
            self._state = _row(cursor, _STATE)

    def clear(self, url: str, kept: Collection[int] = ()) -> bool:
        """Leave the rows of a new copy, and return whether the next test may have the database.

        The next test gets the connections of the processes `kept`; threads of this test cannot use them any longer
        (`tests.open_databases`).
        """
        self._uses[url] += 1
        if url not in self._connections:
            self._connections[url] = connected(url, "te-test-cleaner")
        try:
            is_cleared = self._uses[url] < MAX_USES and self._clear(self._connections[url], kept)
        except psycopg2.Error:  # the test has ended all connections, or left a lock
            is_cleared = False
        if not is_cleared:
            self._connections.pop(url).close()
        return is_cleared

    def _clear(self, connection: Any, kept: Collection[int]) -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '1s'")
            return _is_left(cursor, kept) and _row(cursor, _STATE) == self._state and self._deleted(cursor)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _deleted(self, cursor: Any) -> bool:
        cursor.execute(_SIZES)
        sizes = {name: size for name, size in cursor.fetchall() if name in _TABLES}
        if max(sizes.values()) > _MAX_BYTES:
            return False
        clear(cursor, {name for name, size in sizes.items() if size})
        return True


def clear(cursor: Any, tables: Collection[str] = _TABLES) -> None:
    """Leave the rows of a new database; no TRUNCATE, a schema change on CockroachDB."""
    deletes = [sql.SQL("DELETE FROM {}").format(sql.Identifier(name)) for name in _TABLES if name in tables]
    cursor.execute(sql.SQL("; ").join([*deletes, *map(sql.SQL, FIRST_ROWS)]))


def libpq_url(url: str) -> str:
    """Return a URL for psycopg2, which refuses the scheme cockroachdb; CockroachDB speaks PostgreSQL's protocol."""
    return urlunsplit(urlsplit(url)._replace(scheme="postgresql"))


def connected(url: str, name: str = "te-test-cluster") -> Any:
    """Return a connection without transactions."""
    connection = psycopg2.connect(libpq_url(url), application_name=name)
    connection.autocommit = True
    return connection


def _is_left(cursor: Any, kept: Collection[int]) -> bool:
    """Return whether no connection is left but `kept`; a thread of the test that has one could disturb the next."""
    until = time.monotonic() + _LEAVE_SECONDS
    while _row(cursor, _OTHERS, [list(kept)])[0]:
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def _row(cursor: Any, query: str, values: Sequence[object] | None = None) -> tuple[Any, ...]:
    cursor.execute(query, values)
    found: tuple[Any, ...] = cursor.fetchone()
    return found
