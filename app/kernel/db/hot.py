"""Hot statements: the driver runs them directly, and PostgreSQL prepares each statement once per connection.

SQLAlchemy's work around a short statement, and the server's parsing and planning, are most of its cost. Listeners of
the engine and the handling of errors stay SQLAlchemy's.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

import psycopg2
from psycopg2.extras import NamedTupleCursor
from sqlalchemy import Connection, Dialect

from app.kernel.sql import HotStatement, NamedStatement

# Errors before the server runs anything. The prepared statement is missing, or belongs to another connection: a pooler
# shares connections. Or a migration has changed the result's columns. Or a value does not fit its parameter's type.
_NOT_PREPARED = frozenset({"26000", "42P05", "0A000", "42804"})


MAX_PREPARED_ROWS = 20


class NotPreparedError(Exception):
    """A prepared statement does not fit its connection any more; its transaction is undone, and has to run again."""


class PlanTimes(NamedTuple):
    """Times of cached plans: a second slow answer of a statement in succession replaces all plans of its connection.

    A plan is kept until the statistics of its tables change, so it may date from a time when they were small. New plans
    take about two milliseconds each, and on a busy machine any single answer may be slow.
    """

    slow_seconds: float = 0.005
    kept_seconds: float = 1.0  # at least, also after slow answers


class _Texts(NamedTuple):
    plain: str
    prepare: str
    execute: str


@dataclass(slots=True)
class _Session:
    """Prepared statements of a connection; the pool stores and drops them with the connection."""

    prepares: bool
    prepared: set[str] = field(default_factory=set)
    planned: set[str] = field(default_factory=set)  # their first run plans, which can be slow itself
    planned_at: float = field(default_factory=time.monotonic)
    slow: set[str] = field(default_factory=set)  # their last run was slow
    was_slow_again: bool = False  # the last statement


def run_in(
    connection: Connection, statement: NamedStatement, params: Mapping[str, object], *, joins: int = 0
) -> list[Any]:
    """Run a statement in the transaction of a connection, and return its rows; a hot statement is prepared.

    A statement that `joins` many given rows is not prepared: a cached plan expects few, and may compare each given row
    with each row that it reads. Raises SQLAlchemy's errors, and NotPreparedError.
    """
    if isinstance(statement, HotStatement) and joins <= MAX_PREPARED_ROWS:
        return run(connection, statement, params, PlanTimes())
    result = connection.execute(statement, params)
    return [*result.all()] if result.returns_rows else []


def run(
    connection: Connection, statement: HotStatement, params: Mapping[str, object], plan_times: PlanTimes
) -> list[Any]:
    """Run a statement on a connection, and return its rows; raises SQLAlchemy's errors.

    A prepared statement that is missing, or does not fit, is replaced by its text. In a transaction, which has failed
    then, it raises NotPreparedError.
    """
    wrapped, listeners, texts = connection.connection, connection.engine.dispatch, _texts(statement, connection.dialect)
    session = wrapped.info.get(__name__)
    if session is None:
        # On CockroachDB a LIMIT bounds the read only as a constant.
        session = wrapped.info[__name__] = _Session(prepares=connection.dialect.name == "postgresql")
    driver: Any = wrapped.dbapi_connection
    cursor = driver.cursor(cursor_factory=NamedTupleCursor)
    try:
        for before in listeners.before_cursor_execute:
            before(connection, cursor, statement.text, params, None, False)
        began = time.monotonic()
        is_stale = session.was_slow_again and began - session.planned_at >= plan_times.kept_seconds
        if session.prepares and (is_stale or texts.prepare not in session.prepared):
            _prepare(driver, cursor, session, texts, began if is_stale else None)
        try:
            cursor.execute(texts.execute if session.prepares else texts.plain, params)
        except psycopg2.Error as error:
            if not session.prepares or error.pgcode not in _NOT_PREPARED:
                raise
            session.prepares = False
            if not driver.autocommit:
                raise NotPreparedError from error
            cursor.execute(texts.plain, params)
        is_slow = time.monotonic() - began > plan_times.slow_seconds and texts.prepare in session.planned
        session.was_slow_again = is_slow and texts.prepare in session.slow
        session.planned.add(texts.prepare)
        (session.slow.add if is_slow else session.slow.discard)(texts.prepare)
        for after in listeners.after_cursor_execute:
            after(connection, cursor, statement.text, params, None, False)
        rows: list[Any] = cursor.fetchall() if cursor.description else []
    except psycopg2.Error as error:
        # Translates the error, calls the listeners, and discards a lost connection and all older connections.
        connection._handle_dbapi_exception(error, statement.text, None, cursor, None)  # noqa: SLF001
    cursor.close()
    return rows


def _prepare(driver: Any, cursor: Any, session: _Session, texts: _Texts, plan_again_at: float | None) -> None:
    """Prepare a statement, and first drop the plans of the connection if an instant is given."""
    try:
        if plan_again_at is not None:
            cursor.execute("DISCARD PLANS")
            session.planned.clear()
            session.slow.clear()
            session.planned_at = plan_again_at
        if texts.prepare not in session.prepared:
            cursor.execute(texts.prepare)
            session.prepared.add(texts.prepare)
    except psycopg2.Error as error:
        if error.pgcode not in _NOT_PREPARED:
            raise
        session.prepares = False
        if not driver.autocommit:
            raise NotPreparedError from error


@cache
def _texts(statement: HotStatement, dialect: Dialect) -> _Texts:
    compiled = statement.compile(dialect=dialect)
    numbers = {parameter: f"${number}" for number, parameter in enumerate(compiled.params, 1)}
    numbered = compiled.string % numbers
    # With a pooler, another release may have prepared another text under this name on the same connection.
    name = f"te_{statement.name.replace('.', '_')}_{sha256(numbered.encode()).hexdigest()[:8]}"
    given = f"({', '.join(f'%({parameter})s' for parameter in numbers)})" if numbers else ""
    return _Texts(compiled.string, f"PREPARE {name} AS {numbered}", f"EXECUTE {name}{given}")
