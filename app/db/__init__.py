"""The database: engine, pool, and the one place where a failed statement is tried again.

The rule is by SQLSTATE, never by exception class: psycopg2 files "outcome unknown" (40003) in the same class as
a serialization failure. Every statement of ours may be repeated: ids come from the client, and each write has a
witness that makes its second run a no-op.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, Executable, Row, create_engine, event
from sqlalchemy.exc import DBAPIError, DisconnectionError, SQLAlchemyError

from app.db import deadline
from app.db.breaker import Breaker
from app.db.stalled import StalledConnections
from app.errors import UnavailableError
from app.formats import stored_json
from schema.url import database_url

log = logging.getLogger(__name__)

T = TypeVar("T")

CONFLICT = frozenset({"40001", "40P01", "55P03"})  # serialization failure, deadlock, lock timeout: certainly undone
OUTCOME_UNKNOWN = "40003"
MAX_TRIES = 8
PING_AFTER_IDLE_SECONDS = 5.0
# How much longer than a statement may take its answer is waited for, and how many statements a transaction may be long.
ANSWER_SECONDS, TRANSACTION_STATEMENTS = 2.0, 3
AFTER_DEADLINE_SECONDS = 5.0
_LOST_CLASSES = ("08", "57P", "53", "XX")


class Database:
    """Runs statements, in autocommit or in a transaction, and retries what may be retried."""

    def __init__(self, engine: Engine, *, statement_timeout_seconds: float = 10.0) -> None:
        self.engine = engine
        pool: Any = engine.pool  # a QueuePool without overflow, see connect()
        self._free = threading.BoundedSemaphore(pool.size())
        self._statement_seconds = statement_timeout_seconds
        self._stalled = StalledConnections()
        self._breaker = Breaker()
        _ping_idle_connections(engine, self._stalled)

    @property
    def is_cockroach(self) -> bool:
        """Tell the engines apart; only physical matters may depend on it."""
        return self.engine.dialect.name == "cockroachdb"

    def fetch(
        self, statement: Executable, params: Mapping[str, object] | None = None, *, repeatable: bool = True
    ) -> Sequence[Row[Any]]:
        """Run one statement in a transaction of its own and return its rows.

        Raises UnavailableError when the database cannot be reached, also after a second try, and TimedOutError when
        this thread's deadline is over. A statement that is not `repeatable` (its second run would do something else)
        gets no second try after its outcome was lost.
        """
        return self._retrying(lambda: self._run(statement, params), most_lost=1 if repeatable else 0)

    def transact(self, body: Callable[[Connection], T]) -> T:
        """Run `body` in one transaction; it may run several times, so it must have no other effect."""
        return self._retrying(lambda: self._transact(body))

    def close(self) -> None:
        """Close the pooled connections."""
        self.engine.dispose()

    def _run(self, statement: Executable, params: Mapping[str, object] | None) -> Sequence[Row[Any]]:
        with self._connection() as connection, self._bounded(connection), _autocommit(connection):
            result = connection.execute(statement, params or {})
            return result.all() if result.returns_rows else ()

    def _transact(self, body: Callable[[Connection], T]) -> T:
        with (
            self._connection() as connection,
            self._bounded(connection, TRANSACTION_STATEMENTS),
            connection.begin(),
        ):
            return body(connection)

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """Take a connection from the pool; waits for one no longer than for a statement, or than the caller has.

        The pool itself would wait the same time for each of a request's statements, however little is left of it.
        """
        patience = min(self._statement_seconds, deadline.left(self._statement_seconds))
        if not self._free.acquire(timeout=max(0.0, patience)):
            deadline.check()
            raise UnavailableError("all database connections are in use; try again")
        try:
            with self.engine.connect() as connection:
                yield connection
        finally:
            self._free.release()

    def _bounded(self, connection: Connection, statements: int = 1) -> AbstractContextManager[None]:
        """Give the server a little longer than it gives itself, and not much longer than the caller has."""
        own = statements * self._statement_seconds + ANSWER_SECONDS
        longest = max(0.5, min(own, deadline.left(own) + AFTER_DEADLINE_SECONDS))
        return self._stalled.watch(connection.connection.dbapi_connection, longest)

    def _retrying(self, run: Callable[[], T], most_lost: int = 1) -> T:
        with self._breaker.probe():
            return self._try(run, most_lost)

    def _try(self, run: Callable[[], T], most_lost: int) -> T:
        lost, began = 0, time.monotonic()
        for tries in range(1, MAX_TRIES + 1):
            if lost and deadline.left(1.0) <= 0:
                self._breaker.begins()
            deadline.check()
            try:
                result = run()
            except DBAPIError as error:
                if is_conflict(error):
                    time.sleep(random.uniform(0, 0.005 * 2**tries))
                elif is_lost(error):
                    # Once more on a fresh connection: a pooled one may have died while it was idle. And once more when
                    # only the outcome is unknown (40003): the second run finds what the first one did.
                    lost += 1
                    if lost > most_lost or not (error.connection_invalidated or sqlstate(error) == OUTCOME_UNKNOWN):
                        if sqlstate(error) is None and time.monotonic() - began > ANSWER_SECONDS:
                            self._breaker.begins()
                        message = "the database cannot be reached; try again"
                        raise UnavailableError(message, reason=driver_message(error)) from error
                else:
                    raise
            else:
                self._breaker.ends()
                return result
        raise UnavailableError("the database is too busy; try again")


@contextmanager
def _autocommit(connection: Connection) -> Iterator[None]:
    """Have the driver send neither BEGIN nor COMMIT.

    Its flag is only kept in the client. SQLAlchemy's isolation level AUTOCOMMIT would, each time it is taken back,
    send a SET: a second round trip for each statement.
    """
    driver: Any = connection.connection.dbapi_connection
    driver.autocommit = True
    try:
        yield
    finally:
        if not driver.closed:
            driver.autocommit = False


def sqlstate(error: DBAPIError) -> str | None:
    """Read the SQLSTATE of a driver error; None when the connection itself broke."""
    return getattr(error.orig, "pgcode", None)


def driver_message(error: SQLAlchemyError) -> str:
    """Return what the driver said: its first line, for SQLAlchemy's text would add the statement and its parameters."""
    return (str(getattr(error, "orig", None) or error).strip().splitlines() or ["no reason given"])[0]


def is_conflict(error: DBAPIError) -> bool:
    """Tell whether the transaction was certainly rolled back and may simply run again."""
    return sqlstate(error) in CONFLICT


def is_lost(error: DBAPIError) -> bool:
    """Tell whether the connection, or the outcome of the statement, was lost."""
    state = sqlstate(error)
    if state is None:
        return error.connection_invalidated or type(error).__name__ in {"OperationalError", "InterfaceError"}
    return state in {OUTCOME_UNKNOWN, "57014"} or state.startswith(_LOST_CLASSES)


def connect(
    url: str | URL, *, pool_size: int, application_name: str, statement_timeout_seconds: float = 10.0
) -> Database:
    """Open a database with a fixed-size pool; no connection is made before the first statement."""
    parsed = database_url(url) if isinstance(url, str) else url
    query = dict(parsed.query)
    mine = query.pop("options", "")
    engine = create_engine(
        parsed.set(query=query),
        json_deserializer=stored_json,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=statement_timeout_seconds,  # never waited for: Database lets nobody in when all are in use
        # Spread, so that the pools of many processes do not reconnect in step.
        pool_recycle=int(random.uniform(240, 300)),
        connect_args={
            "connect_timeout": 5,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 15_000,
            "application_name": application_name,
            # What the URL asks for comes last and wins.
            "options": f"{_session_options(statement_timeout_seconds)} {mine}".strip(),
        },
    )
    event.listen(engine, "handle_error", _mark_disconnects)
    return Database(engine, statement_timeout_seconds=statement_timeout_seconds)


def _session_options(statement_timeout_seconds: float) -> str:
    settings = {
        "TimeZone": "UTC",
        "statement_timeout": str(int(statement_timeout_seconds * 1000)),
        "lock_timeout": str(int(statement_timeout_seconds * 500)),
        "idle_in_transaction_session_timeout": "30000",
        "default_transaction_isolation": r"read\ committed",
    }
    return " ".join(f"-c {name}={value}" for name, value in settings.items())


def _ping_idle_connections(engine: Engine, stalled: StalledConnections) -> None:
    """Ping a pooled connection that has been idle for a while.

    SQLAlchemy's own pre-ping asks at each checkout and would double the round trips of a busy process.
    """

    @event.listens_for(engine, "checkin")
    def note(_connection: Any, record: Any) -> None:
        record.info["idle_since"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def ping(connection: Any, record: Any, _proxy: Any) -> None:
        idle_since = record.info.get("idle_since")
        if idle_since is None or time.monotonic() - idle_since < PING_AFTER_IDLE_SECONDS:
            return
        try:
            with stalled.watch(connection, ANSWER_SECONDS):
                engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error


def _mark_disconnects(context: Any) -> None:
    # SQLAlchemy's list of messages lacks CockroachDB's shutdown text; the SQLSTATE is the same on both engines.
    state = getattr(context.original_exception, "pgcode", None)
    if state is not None and state.startswith(("08", "57P")):
        context.is_disconnect = True
