"""Servers that tests run against, and fresh databases on them."""

import os
import secrets
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

import psycopg2
import pytest
from psycopg2 import sql

from app.dev.servers import Server, ServerError
from schema import migrate

S = TypeVar("S", bound=Server)


def start_or_skip(server: S) -> S:
    """Start a server. If the server cannot start, skip the test, or fail the test in CI."""
    try:
        server.start()
    except ServerError as error:
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            raise
        pytest.skip(f"no {server.name}: {error}")
    return server


class Cluster:
    """PostgreSQL or CockroachDB on which this test session creates and drops its databases."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._prefix = f"te_test_{secrets.token_hex(4)}"
        self._count = 0
        # psycopg2 accepts only the scheme postgresql; CockroachDB speaks the same protocol.
        self._admin_url = urlunsplit(urlsplit(url)._replace(scheme="postgresql"))
        (version,) = self._ask("SELECT version()")
        self.is_cockroach = "CockroachDB" in version

    def create(self, *, template: str | None = None) -> str:
        """Create a database, a copy of the database at `template` if given, and return its URL."""
        self._count += 1
        name = f"{self._prefix}_{self._count}"
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            statement += sql.SQL(" TEMPLATE {}").format(sql.Identifier(_name(template)))
        self._run(statement)
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{name}"))

    @contextmanager
    def migrated(self) -> Iterator[str]:
        """Lend a freshly migrated database."""
        url = self.create()
        migrate.upgrade(url)
        yield url
        self.drop(url)

    def drop(self, url: str) -> None:
        """Drop a database and disconnect its clients."""
        how = " CASCADE" if self.is_cockroach else " WITH (FORCE)"
        self._run(sql.SQL("DROP DATABASE IF EXISTS {}" + how).format(sql.Identifier(_name(url))))

    def _ask(self, statement: str) -> tuple[str, ...]:
        with closing(psycopg2.connect(self._admin_url)) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            row: tuple[str, ...] = cursor.fetchone()
            return row

    def _run(self, statement: sql.Composable) -> None:
        with closing(psycopg2.connect(self._admin_url)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)


class Copies:
    """Copies of a template database: while a test uses one copy, a thread creates the next and drops the previous.

    The server needs longer for both than many tests run, and tests leave the server mostly idle.
    """

    def __init__(self, cluster: Cluster, template: str) -> None:
        self._cluster = cluster
        self._template = template
        self._thread = ThreadPoolExecutor(1, "copies")
        self._next = self._begin()
        self._drops: list[Future[None]] = []

    @contextmanager
    def lend(self) -> Iterator[str]:
        url = self._next.result()
        self._next = self._begin()
        yield url
        self._drops.append(self._thread.submit(self._cluster.drop, url))

    def close(self) -> None:
        """Drop the unused copy; raise the error of a failed drop."""
        self._cluster.drop(self._next.result())
        self._thread.shutdown()
        for drop in self._drops:
            drop.result()

    def _begin(self) -> Future[str]:
        return self._thread.submit(self._cluster.create, template=self._template)


def _name(url: str) -> str:
    return urlsplit(url).path.lstrip("/")
