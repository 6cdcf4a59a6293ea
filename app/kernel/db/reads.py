"""Reads: the port of code that only reads, and reads that are remembered."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from sqlalchemy import Connection, Executable, Row, TextClause

from app.kernel.function_types import Fetch


class Reads(Protocol):
    """The part of `Database` that reads."""

    def fetch(self, statement: Executable, params: Mapping[str, object] | None = None) -> Sequence[Any]:
        """Run one statement and return its rows."""


def fetch_of(reader: Reads | Connection) -> Fetch:
    """Return the function that reads by a database, or in the transaction of a connection."""
    return partial(_fetch_in, reader) if isinstance(reader, Connection) else reader.fetch


def _fetch_in(connection: Connection, query: TextClause, params: Mapping[str, Any]) -> Sequence[Row[Any]]:
    return connection.execute(query, params).all()


class RememberedReads:
    """Reads of one request: an equal read returns the rows of the first. Not for several threads."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self._known: dict[tuple[Executable, str], Sequence[Any]] = {}

    def fetch(self, statement: Executable, params: Mapping[str, object] | None = None) -> Sequence[Any]:
        """Return the remembered rows, or run the statement."""
        key = _key(statement, params)
        if key not in self._known:
            self._known[key] = self.reads.fetch(statement, params)
        return self._known[key]

    def has(self, statement: Executable, params: Mapping[str, object]) -> bool:
        return _key(statement, params) in self._known

    def learn(self, statement: Executable, params: Mapping[str, object], rows: Sequence[Any]) -> None:
        """Remember rows that another statement has read for several such reads."""
        self._known[_key(statement, params)] = rows


def _key(statement: Executable, params: Mapping[str, object] | None) -> tuple[Executable, str]:
    return statement, repr(sorted((params or {}).items()))
