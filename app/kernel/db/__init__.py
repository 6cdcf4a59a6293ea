"""Database: the engine, its pool of connections, and how a statement gets one."""

import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar

import psycopg2
from sqlalchemy import URL, Connection, Engine, Executable, Row, create_engine, event, text
from sqlalchemy.exc import DisconnectionError

from app.kernel import ids
from app.kernel.db import deadline, driver_errors, hot
from app.kernel.db.ambient import JointTransaction
from app.kernel.db.circuit import DatabaseBreaker
from app.kernel.db.fire_and_forget import Unawaited, server_of
from app.kernel.db.retries import retried
from app.kernel.db.stalled import ANSWER_SECONDS, StalledConnections
from app.kernel.errors import UnavailableError
from app.kernel.formats import stored_json
from app.kernel.function_types import Run, Work
from app.kernel.sql import IN_REGIONS, HotStatement
from schema.url import database_url

T = TypeVar("T")

PING_AFTER_IDLE_SECONDS = 5.0
TRANSACTION_STATEMENTS = 3  # how many statements' time a transaction may take
AFTER_DEADLINE_SECONDS = 5.0
_HARDLY_WAIT = text("SET LOCAL lock_timeout = '100ms'")
_SOCKET_OPTIONS = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


class Database:
    """Runs statements, in autocommit or in a transaction, and retries what may be retried."""

    def __init__(self, engine: Engine, unawaited: Unawaited, *, statement_timeout_seconds: float = 10.0) -> None:
        self.engine = engine
        self.unawaited = unawaited
        self.regions: Sequence[str] | None = None  # whose rows the statements choose that choose work; None: of all
        pool: Any = engine.pool  # a QueuePool without overflow, see connect()
        self._free = threading.BoundedSemaphore(pool.size())
        self._statement_seconds = statement_timeout_seconds
        self._stalled = StalledConnections()
        self._breaker = DatabaseBreaker()
        self._joint = JointTransaction()
        event.listen(engine, "connect", self._stalled.start_watching)
        _ping_idle_connections(engine, self._stalled)

    @property
    def is_cockroach(self) -> bool:
        """Whether this is CockroachDB and not PostgreSQL; only physical matters may depend on it."""
        return self.engine.dialect.name == "cockroachdb"

    def fetch(
        self, statement: Executable, params: Mapping[str, object] | None = None, *, repeatable: bool = True
    ) -> Sequence[Row[Any]]:
        """Run one statement in a transaction of its own and return its rows.

        Raises UnavailableError when the database cannot be reached, also after a second try, and TimedOutError once
        this thread's deadline has passed. A statement that is not `repeatable` (its second run would do something
        else) gets no second try after its outcome was lost.
        """
        if self.regions is not None and (narrowed := IN_REGIONS.get(statement)) is not None:
            statement, params = narrowed, {**(params or {}), "regions": list(self.regions)}
        if self._joint.connection is not None:
            return self._joint.fetch(statement, params)
        return retried(partial(self._run, statement, params), self._breaker, most_lost=1 if repeatable else 0)

    def fetch_unless_locked(
        self, statement: Executable, params: Mapping[str, object] | None = None
    ) -> Sequence[Row[Any]]:
        """Run one statement as `fetch` does, but hardly wait for rows that others have locked.

        Raises UnavailableError when one of them is.
        """

        def run(connection: Connection) -> Sequence[Row[Any]]:
            hardly_wait(connection)
            return connection.execute(statement, params or {}).all()

        return self.transact(run)

    def transact(self, body: Work[T]) -> T:
        """Run `body` in one transaction; it may run several times, so it must have no other effect."""
        if self._joint.connection is not None:
            return self._joint.transact(body)
        return retried(partial(self._transact, body), self._breaker)

    def transact_jointly(self, body: Run[T]) -> T:
        """Run `body` in one transaction, which all that it asks of this database is part of, transactions included.

        Where this thread is in such a transaction, it is a part of that. Like the body of any transaction it may run
        several times, and an error that leaves it undoes everything. It must let each error leave that it gets from a
        transaction, because nothing of that has been undone.
        """
        if self._joint.connection is not None:
            return body()
        return retried(partial(self._transact_jointly, body), self._breaker)

    def commit_jointly(self) -> None:
        """Commit what this thread's joint transaction did until now, if it is in one; what follows runs on its own."""
        self._joint.commit()

    def open_unawaited(self) -> None:
        """Open the connection of `unawaited` to where the pool has connected, unless it is there or failed of late."""
        if self.unawaited.is_wanting:
            with self._connection() as connection:
                server = server_of(connection.connection.dbapi_connection)
            self.unawaited.open(server)

    def close(self) -> None:
        """Close the connections and end the thread that watches them, for good."""
        self.unawaited.close()
        self.engine.dispose()
        self._stalled.stop()

    def _run(self, statement: Executable, params: Mapping[str, object] | None) -> Sequence[Row[Any]]:
        with self._connection() as connection:
            # The driver then sends neither BEGIN nor COMMIT, and keeps the flag to itself. SQLAlchemy's isolation level
            # AUTOCOMMIT would, each time it is taken back, send a SET: a second round trip for each statement.
            driver: Any = connection.connection.dbapi_connection
            driver.autocommit = True
            try:
                if isinstance(statement, HotStatement):
                    return hot.run(connection, statement, params or {})
                result = connection.execute(statement, params or {})
                return result.all() if result.returns_rows else ()
            finally:
                if not driver.closed:
                    driver.autocommit = False

    def _transact(self, body: Work[T]) -> T:
        with self._connection(TRANSACTION_STATEMENTS) as connection, connection.begin():
            return body(connection)

    def _transact_jointly(self, body: Run[T]) -> T:
        with ExitStack() as stack:
            connection = stack.enter_context(self._connection(TRANSACTION_STATEMENTS))
            stack.enter_context(connection.begin())
            self._joint.begin(connection, stack)
            try:
                return body()
            finally:
                self._joint.leave()

    @contextmanager
    def _connection(self, statements: int = 1) -> Iterator[Connection]:
        """Take a connection from the pool, and cut it when its server stalls.

        The wait for a free one is bounded by the time of a statement, and by this thread's deadline. The pool itself
        would wait the same time for each of a request's statements, however little is left of it.
        """
        until = deadline.current.at
        if not self._free.acquire(timeout=max(0.0, min(self._statement_seconds, until - time.monotonic()))):
            deadline.check()
            raise UnavailableError("all database connections are in use; try again")
        try:
            with self.engine.connect() as connection:
                # The server gets a little longer than it gives itself, and not much longer than the caller has.
                own = statements * self._statement_seconds + ANSWER_SECONDS
                longest = max(0.5, min(own, until - time.monotonic() + AFTER_DEADLINE_SECONDS))
                with self._stalled.watch(connection.connection.dbapi_connection, longest):
                    yield connection
        finally:
            self._free.release()


def hardly_wait(connection: Connection) -> None:
    """Let the rest of a transaction hardly wait for rows that others have locked."""
    connection.execute(_HARDLY_WAIT)


def connect(
    url: str | URL, *, pool_size: int, application_name: str, statement_timeout_seconds: float = 10.0
) -> Database:
    """Open a database with a fixed-size pool; no connection is made before the first statement.

    Which database it is decides the form of the ids of this process (app.kernel.ids).
    """
    parsed = database_url(url) if isinstance(url, str) else url
    query = dict(parsed.query)
    mine = query.pop("options", "")
    session = _session(statement_timeout_seconds, is_cockroach=parsed.get_backend_name() == "cockroachdb")
    # What the URL asks for comes last and wins.
    given = _SOCKET_OPTIONS | {"application_name": application_name, "options": f"{session} {mine}".strip()}
    engine = create_engine(
        parsed.set(query=query),
        json_deserializer=stored_json,
        hide_parameters=True,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=statement_timeout_seconds,  # never waited for: Database lets nobody in when all are in use
        # Spread, so that the pools of many processes do not reconnect in step.
        pool_recycle=int(random.uniform(240, 300)),
        connect_args=given,
    )
    event.listen(engine, "handle_error", driver_errors.mark_disconnects)
    event.listen(engine, "handle_error", driver_errors.hide_values)
    # The driver gets what SQLAlchemy would give it.
    arguments, named = engine.dialect.create_connect_args(engine.url)
    unawaited = Unawaited(engine, partial(psycopg2.connect, *arguments, **{**named, **given}))
    database = Database(engine, unawaited, statement_timeout_seconds=statement_timeout_seconds)
    ids.lead_with_time(not database.is_cockroach)
    return database


def _session(statement_timeout_seconds: float, *, is_cockroach: bool) -> str:
    settings = {
        "TimeZone": "UTC",
        "statement_timeout": str(int(statement_timeout_seconds * 1000)),
        "lock_timeout": str(int(statement_timeout_seconds * 500)),
        "idle_in_transaction_session_timeout": "30000",
        "default_transaction_isolation": r"read\ committed",
    }
    if not is_cockroach:
        # Hot statements are planned once. By its own rule PostgreSQL would plan some of them at each run.
        settings["plan_cache_mode"] = "force_generic_plan"
    return " ".join(f"-c {name}={value}" for name, value in settings.items())


def _ping_idle_connections(engine: Engine, stalled: StalledConnections) -> None:
    """Ping a pooled connection that nobody took for a while.

    SQLAlchemy's own pre-ping asks at each checkout and would double the round trips of a busy process.
    """

    @event.listens_for(engine, "checkout")
    def ping(connection: Any, record: Any, _proxy: Any) -> None:
        now = time.monotonic()
        taken_at, record.info["taken_at"] = record.info.get("taken_at", now), now
        if now - taken_at < PING_AFTER_IDLE_SECONDS:
            return
        try:
            with stalled.watch(connection, ANSWER_SECONDS):
                engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error
