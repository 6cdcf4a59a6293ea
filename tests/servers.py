"""Servers that tests run against, and fresh databases on them."""

import os
import secrets
from collections import deque
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import pytest
from psycopg2 import sql

from app.dev.servers import Server, ServerError
from schema import migrate
from tests.cleared import Cleaner, clear, connected
from tests.open_databases import OpenDatabases

S = TypeVar("S", bound=Server)

# The revision, and the names of what a test may add or drop; on both engines.
_SCHEMA = """
    SELECT 'revision', version_num, '' FROM alembic_version
    UNION ALL SELECT 'schema', schema_name, '' FROM information_schema.schemata
    UNION ALL SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public'
    UNION ALL SELECT tablename, indexname, '' FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL SELECT table_name, constraint_name, constraint_type FROM information_schema.table_constraints
               WHERE table_schema = 'public'
    UNION ALL SELECT event_object_table, trigger_name, '' FROM information_schema.triggers
    UNION ALL SELECT 'function', p.proname, '' FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
               WHERE n.nspname = 'public'
    """


def start_or_skip(server: S) -> S:
    """Start a server. If the server cannot start, skip the test, or fail the test in CI."""
    try:
        server.start()
    except ServerError as error:
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            raise
        pytest.skip(f"no {server.name}: {error}")
    return server


def given_programs() -> Path | None:
    """Return the folder of the programs of PostgreSQL that the session is to use; None for the wheel's programs."""
    folder = os.environ.get("TEST_POSTGRESQL_BIN")
    return Path(folder) if folder else None


class Cluster:
    """PostgreSQL or CockroachDB on which this test session creates and drops its databases.

    With `imitates_cockroach`, a PostgreSQL stands in for CockroachDB: tests get URLs of the scheme cockroachdb, so the
    code takes its branches for CockroachDB.
    """

    def __init__(self, url: str, *, imitates_cockroach: bool = False) -> None:
        self.url = url
        self.imitates = imitates_cockroach
        self._prefix = f"te_test_{secrets.token_hex(4)}"
        self._count = 0
        self._connection = connected(url)
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT version()")
            self._is_cockroach = "CockroachDB" in cursor.fetchone()[0]
        self.is_cockroach = self._is_cockroach or imitates_cockroach

    def create(self, *, template: str | None = None) -> str:
        """Create a database, a copy of the database at `template` if given, and return its URL."""
        self._count += 1
        name = f"{self._prefix}_{self._count}"
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            # Copies files: cheaper than the default, which writes each page to the WAL.
            statement += sql.SQL(" TEMPLATE {} STRATEGY file_copy").format(sql.Identifier(_name(template)))
        self._run(statement)
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))

    def migrated(self) -> str:
        """Create and migrate a database, and return its URL. The imitation has the indexes of PostgreSQL."""
        url = self.create()
        migrate.upgrade(url)
        return urlunsplit(urlsplit(url)._replace(scheme="cockroachdb")) if self.imitates else url

    def drop(self, url: str) -> None:
        """Drop a database and disconnect its clients."""
        how = " CASCADE" if self._is_cockroach else " WITH (FORCE)"
        self._run(sql.SQL("DROP DATABASE IF EXISTS {}" + how).format(sql.Identifier(_name(url))))

    def close(self) -> None:
        self._connection.close()

    def _run(self, statement: sql.Composable) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)


class Copies:
    """Copies of a template database: while a test uses one copy, a thread creates the next and drops the previous.

    The server needs longer for both than many tests run, and tests leave the server mostly idle.
    """

    def __init__(self, cluster: Cluster, template: str) -> None:
        self._cluster = cluster
        self._template = template
        self.open = OpenDatabases()
        self._cleaner = Cleaner(template)
        self._thread = ThreadPoolExecutor(1, "copies")
        self._next = self._begin()
        self._cleared = deque[Future[str | None]]()
        self._drops: list[Future[None]] = []

    @contextmanager
    def lend(self) -> Iterator[str]:
        """Lend a new copy."""
        url = self._next.result()
        self._next = self._begin()
        yield url
        self._drops.append(self._thread.submit(self._drop, url))

    @contextmanager
    def lend_cleared(self) -> Iterator[str]:
        """Lend a copy that may have been lent before, without the rows of that test."""
        url = self._cleared.popleft().result() if len(self._cleared) > 1 else None
        if url is None:
            url = self._next.result()
            self._next = self._begin()
        self.open.add(url)
        yield url
        self._cleared.append(self._thread.submit(self._clear, url, self.open.connections(url)))

    def close(self) -> None:
        """Drop the copies that are not lent; raise the error of a failed drop."""
        self._cluster.drop(self._next.result())
        for cleared in self._cleared:
            if (url := cleared.result()) is not None:
                self._drop(url)
        self._cleaner.close()
        self._thread.shutdown()
        for drop in self._drops:
            drop.result()

    def _clear(self, url: str, kept: Collection[int]) -> str | None:
        if self._cleaner.clear(url, kept):
            return url
        self._drop(url)
        return None

    def _drop(self, url: str) -> None:
        self.open.close(url)
        self._cluster.drop(url)

    def _begin(self) -> Future[str]:
        return self._thread.submit(self._cluster.create, template=self._template)


class ReusedDatabases:
    """Migrated databases that are cleared between tests: a migration takes minutes on CockroachDB.

    A process needs one database, and another while a module's database is lent. A database whose schema a test has
    changed is dropped.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.open = OpenDatabases()
        self._free: list[str] = []
        self._schemas: dict[str, set[tuple[str, ...]]] = {}

    @contextmanager
    def lend(self) -> Iterator[str]:
        url = self._free.pop() if self._free else self._add()
        self.open.add(url)
        yield url
        with closing(connected(url)) as connection, connection.cursor() as cursor:
            is_intact = _schema(cursor) == self._schemas[url]
            if is_intact:
                clear(cursor)
        if is_intact:
            self._free.append(url)
        else:
            self._drop(url)

    lend_cleared = lend

    def close(self) -> None:
        """Drop the databases that are not lent."""
        for url in self._free:
            self._drop(url)

    def _drop(self, url: str) -> None:
        self.open.close(url)
        self._cluster.drop(url)

    def _add(self) -> str:
        url = self._cluster.migrated()
        with closing(connected(url)) as connection, connection.cursor() as cursor:
            self._schemas[url] = _schema(cursor)
        return url


def _schema(cursor: Any) -> set[tuple[str, ...]]:
    cursor.execute(_SCHEMA)
    return set(cursor.fetchall())


def _name(url: str) -> str:
    return urlsplit(url).path.lstrip("/")
