"""Hot statements: the driver runs them itself, and PostgreSQL prepares each once on a connection.

What SQLAlchemy does around a short statement, and the server's parsing and planning, are most of its cost. Listeners of
the engine, and all that follows an error, stay SQLAlchemy's.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from typing import Any

import psycopg2
from psycopg2.extras import NamedTupleCursor
from sqlalchemy import Connection, Dialect

from app.kernel.sql import HotStatement

# A plan is kept until the statistics of its tables change, so it may be from a time when they were small. A slow answer
# has statements planned anew, which takes about two milliseconds for all of them.
SLOW_SECONDS = 0.005
PLANS_LAST_SECONDS = 1.0

# The server says so before it runs anything. The statement is not there, or another connection's: a pooler hands
# connections around. Or a migration has changed what it returns. Or a value is no parameter of the type it stands for.
_NOT_PREPARED = frozenset({"26000", "42P05", "0A000", "42804"})


@dataclass(frozen=True, slots=True)
class _Texts:
    """What is sent for a statement."""

    plain: str
    prepare: str
    execute: str


@dataclass(slots=True)
class _Session:
    """What a connection has prepared; the pool keeps it beside the connection, and drops it with it."""

    prepares: bool
    prepared: set[str] = field(default_factory=set)
    planned_at: float = field(default_factory=time.monotonic)
    was_slow: bool = False


def run(connection: Connection, statement: HotStatement, params: Mapping[str, object]) -> list[Any]:
    """Run a statement on a connection in autocommit, and return its rows; raises what SQLAlchemy would."""
    wrapped, told = connection.connection, connection.engine.dispatch
    session = wrapped.info.get(__name__)
    if session is None:
        # CockroachDB reads no further than a LIMIT only where that is a constant.
        session = wrapped.info[__name__] = _Session(prepares=connection.dialect.name == "postgresql")
    driver: Any = wrapped.dbapi_connection
    cursor = driver.cursor(cursor_factory=NamedTupleCursor)
    try:
        for before in told.before_cursor_execute:
            before(connection, cursor, statement.text, params, None, False)
        _execute(cursor, session, _texts(statement, connection.dialect), params)
        for after in told.after_cursor_execute:
            after(connection, cursor, statement.text, params, None, False)
        rows: list[Any] = cursor.fetchall()
    except psycopg2.Error as error:
        # Translates it, tells those who listen, and gives up a lost connection and all that are older.
        connection._handle_dbapi_exception(error, statement.text, None, cursor, None)  # noqa: SLF001
    cursor.close()
    return rows


def _execute(cursor: Any, session: _Session, texts: _Texts, params: Mapping[str, object]) -> None:
    if session.prepares:
        began = time.monotonic()
        try:
            if session.was_slow and began - session.planned_at >= PLANS_LAST_SECONDS:
                cursor.execute("DISCARD PLANS")
                session.planned_at = began
            if texts.prepare not in session.prepared:
                cursor.execute(texts.prepare)
                session.prepared.add(texts.prepare)
            cursor.execute(texts.execute, params)
        except psycopg2.Error as error:
            if error.pgcode not in _NOT_PREPARED:
                raise
            session.prepares = False
        else:
            session.was_slow = time.monotonic() - began > SLOW_SECONDS
            return
    cursor.execute(texts.plain, params)


@cache
def _texts(statement: HotStatement, dialect: Dialect) -> _Texts:
    compiled = statement.compile(dialect=dialect)
    numbers = {parameter: f"${number}" for number, parameter in enumerate(compiled.params, 1)}
    numbered = compiled.string % numbers
    # Another release may have prepared another text under the name, on a connection that a pooler hands around.
    name = f"te_{statement.name.replace('.', '_')}_{sha256(numbered.encode()).hexdigest()[:8]}"
    given = f"({', '.join(f'%({parameter})s' for parameter in numbers)})" if numbers else ""
    return _Texts(compiled.string, f"PREPARE {name} AS {numbered}", f"EXECUTE {name}{given}")
