"""Database: runs statements and transactions on pooled connections."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, Executable, Row, TextClause, event, text

from app.kernel import ids
from app.kernel.db import deadline, hot
from app.kernel.db.engine import (
    ANSWER_SECONDS,
    PING_AFTER_IDLE_SECONDS,
    StalledConnections,
    connection_options,
    make_engine,
    ping_idle_connections,
)
from app.kernel.db.fire_and_forget import FireAndForget, server_of
from app.kernel.db.retries import CONFLICT, CONNECTION, DatabaseBreaker, retried
from app.kernel.errors import UnavailableError
from app.kernel.function_types import Run, Work
from app.kernel.metrics import PROCESS
from app.kernel.metrics.series import STATEMENT_RETRIES
from app.kernel.sql import IN_REGIONS, HotStatement
from schema.url import database_url

T = TypeVar("T")

TRANSACTION_STATEMENTS = 3  # a transaction may take the time of three statements
AFTER_DEADLINE_SECONDS = 5.0
_SHORT_LOCK_TIMEOUT = text("SET LOCAL lock_timeout = '100ms'")


class _AmbientTransaction(threading.local):
    """The ambient transaction of the calling thread; `connection` is None without one."""

    connection: Connection | None = None
    stack: ExitStack | None = None  # ends the transaction


class Database:
    """Runs statements, in autocommit or in a transaction, and repeats them after errors that a second run may avoid."""

    def __init__(
        self,
        engine: Engine,
        fire_and_forget: FireAndForget,
        *,
        statement_timeout_seconds: float = 10.0,
        ping_after_idle_seconds: float = PING_AFTER_IDLE_SECONDS,
        patience_seconds: float = 0.0,
    ) -> None:
        self.engine = engine
        self.fire_and_forget = fire_and_forget
        self.regions: Sequence[str] | None = None  # of the rows to choose work from; None: all regions
        self.plan_times = hot.PlanTimes()
        pool: Any = engine.pool  # a ShrinkingPool without overflow, see make_engine()
        self._free = threading.BoundedSemaphore(pool.size())
        self._returned = threading.Condition()
        self._patience_seconds = patience_seconds
        self._statement_seconds = statement_timeout_seconds
        self._stalled = StalledConnections(pool)
        self._breaker = DatabaseBreaker()
        self._ambient = _AmbientTransaction()
        event.listen(engine, "connect", _begin_counting)
        event.listen(engine, "connect", self._stalled.start_watching)
        ping_idle_connections(engine, self._stalled, ping_after_idle_seconds)

    @property
    def is_cockroach(self) -> bool:
        """Whether this is CockroachDB and not PostgreSQL; only physical matters may depend on it."""
        return self.engine.dialect.name == "cockroachdb"

    def fetch(
        self, statement: Executable, params: Mapping[str, object] | None = None, *, repeatable: bool = True
    ) -> Sequence[Row[Any]]:
        """Run one statement and return its rows: in the thread's ambient transaction, else in its own transaction.

        Raises UnavailableError if the database is unreachable, also at a second try, and TimedOutError after this
        thread's deadline. A statement that is not `repeatable` gets no second try after its outcome was lost, because
        its second run would have another effect.
        """
        if self.regions is not None and (narrowed := IN_REGIONS.get(statement)) is not None:
            statement, params = narrowed, {**(params or {}), "regions": list(self.regions)}
        if self._ambient.connection is not None:
            return self.transact(partial(_rows_of, statement=statement, params=params))
        return retried(partial(self._run, statement, params), self._breaker, most_lost=1 if repeatable else 0)

    def fetch_unless_locked(
        self, statement: TextClause, params: Mapping[str, object] | None = None
    ) -> Sequence[Row[Any]]:
        """Run one statement as `fetch` does; raises LockedError if another transaction holds a lock for 100 ms."""
        if self._ambient.connection is not None or self.is_cockroach:
            return self.transact_unless_locked(partial(_rows_of, statement=statement, params=params))
        # The statements of one message are one transaction: one round trip instead of four.
        return retried(partial(self._run, _unless_locked(statement), params), self._breaker)

    def transact(self, body: Work[T]) -> T:
        """Run `body` in one transaction; it may run several times, so it must have no other effect."""
        if self._ambient.connection is not None:
            deadline.check()
            return body(self._ambient.connection)
        return retried(partial(self._transact, body), self._breaker)

    def transact_unless_locked(self, body: Work[T]) -> T:
        """Run `body` as `transact` does; raises LockedError if another transaction holds a lock for 100 ms."""

        def run(connection: Connection) -> T:
            hardly_wait(connection)
            return body(connection)

        return self.transact(run)

    def transact_jointly(self, body: Run[T]) -> T:
        """Run `body` in an ambient transaction, which includes all statements and transactions of this thread.

        Inside an ambient transaction, `body` becomes a part of it. As with `transact`, `body` may run several times. An
        error that leaves `body` undoes everything. `body` must not catch errors of transactions inside it, because
        these are not undone separately.
        """
        if self._ambient.connection is not None:
            return body()
        return retried(partial(self._transact_jointly, body), self._breaker)

    def commit_jointly(self) -> None:
        """Commit this thread's ambient transaction, if any; later statements run in their own transactions."""
        stack = self._ambient.stack
        self._ambient.connection = self._ambient.stack = None
        if stack is not None:
            stack.close()

    def open_fire_and_forget(self) -> None:
        """Open the connection of `fire_and_forget` to the pool's server, unless it is open or failed recently."""
        if self.fire_and_forget.is_wanting:
            with self._connection() as connection:
                server = server_of(connection.connection.dbapi_connection)
            self.fire_and_forget.open(server)

    def close(self) -> None:
        """Close the connections permanently, and end the thread that watches them."""
        self.fire_and_forget.close()
        self.engine.dispose()
        self._stalled.stop()

    def _run(self, statement: Executable, params: Mapping[str, object] | None) -> Sequence[Row[Any]]:
        with self._connection() as connection:
            # In autocommit the driver sends neither BEGIN nor COMMIT, and keeps the flag to itself. SQLAlchemy's
            # isolation level AUTOCOMMIT would send a SET each time it is reset: a second round trip per statement.
            driver: Any = connection.connection.dbapi_connection
            driver.autocommit = True
            try:
                if isinstance(statement, HotStatement):
                    return hot.run(connection, statement, params or {}, self.plan_times)
                result = connection.execute(statement, params or {})
                return result.all() if result.returns_rows else ()
            finally:
                if not driver.closed:
                    driver.autocommit = False

    def _transact(self, body: Work[T]) -> T:
        while True:  # after a lost preparation, its connection runs texts
            with suppress(hot.NotPreparedError), self._transaction() as connection:
                return body(connection)

    def _transact_jointly(self, body: Run[T]) -> T:
        while True:
            with suppress(hot.NotPreparedError), ExitStack() as stack:
                connection = stack.enter_context(self._transaction())
                self._ambient.connection, self._ambient.stack = connection, stack
                try:
                    return body()
                finally:
                    self._ambient.connection = self._ambient.stack = None

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._connection(TRANSACTION_STATEMENTS) as connection, connection.begin():
            yield connection

    @contextmanager
    def _connection(self, statements: int = 1) -> Iterator[Connection]:
        """Take a connection from the pool, and cut it if its server stalls.

        The wait for a free connection ends after the time of one statement or at this thread's deadline. The pool's own
        wait would not end at the deadline.
        """
        until = deadline.current.at
        if not self._free.acquire(timeout=max(0.0, min(self._statement_seconds, until - time.monotonic()))):
            deadline.check()
            raise UnavailableError("All database connections are in use; retry later.")
        try:
            if self._patience_seconds:
                self._await_open_connection()
            with self.engine.connect() as connection:
                # The server gets a little more time than its own timeout, and not much more than the caller has.
                own = statements * self._statement_seconds + ANSWER_SECONDS
                longest = max(0.5, min(own, until - time.monotonic() + AFTER_DEADLINE_SECONDS))
                driver = connection.connection.dbapi_connection
                self._stalled.cut_at[driver] = time.monotonic() + longest
                try:
                    yield connection
                finally:
                    self._stalled.cut_at.pop(driver, None)
        finally:
            self._free.release()
            if self._patience_seconds:
                with self._returned:
                    self._returned.notify()

    def _await_open_connection(self) -> None:
        """Wait a little for a connection in use, before a further connection is opened."""
        pool: Any = self.engine.pool
        if pool.checkedout() and not pool.checkedin():
            with self._returned:
                self._returned.wait_for(pool.checkedin, self._patience_seconds)


def _rows_of(connection: Connection, statement: Executable, params: Mapping[str, object] | None) -> Sequence[Row[Any]]:
    result = connection.execute(statement, params or {})
    return result.all() if result.returns_rows else ()


def _begin_counting(*_connected: object) -> None:
    """Report no retries yet; at each connect, because a fork clears the counters."""
    PROCESS.begin(STATEMENT_RETRIES, (*CONFLICT, CONNECTION))


@cache
def _unless_locked(statement: TextClause) -> TextClause:
    return text(f"{_SHORT_LOCK_TIMEOUT.text}; {statement.text}")


def hardly_wait(connection: Connection) -> None:
    """Wait for locks for 100 ms at most, in the rest of a transaction."""
    connection.execute(_SHORT_LOCK_TIMEOUT)


def connect(
    url: str | URL,
    *,
    pool_size: int,
    application_name: str,
    statement_timeout_seconds: float = 10.0,
    ping_after_idle_seconds: float = PING_AFTER_IDLE_SECONDS,
    patience_seconds: float = 0.0,
) -> Database:
    """Open a database with a pool of fixed size; the first statement makes the first connection.

    A thread waits `patience_seconds` for a connection in use before it opens a further connection: processes without
    clients that wait need few. The kind of database decides the form of the ids of this process (app.kernel.ids).
    """
    parsed, seconds = database_url(url) if isinstance(url, str) else url, statement_timeout_seconds
    options = connection_options(parsed, application_name=application_name, statement_timeout_seconds=seconds)
    engine = make_engine(parsed, options, pool_size=pool_size, statement_timeout_seconds=seconds)
    database = Database(
        engine,
        FireAndForget(engine, options),
        statement_timeout_seconds=seconds,
        ping_after_idle_seconds=ping_after_idle_seconds,
        patience_seconds=patience_seconds,
    )
    ids.lead_with_time(not database.is_cockroach)
    return database
