"""Sending by the SQL function te_enqueue, also in a transaction of the caller, and the errors of all senders."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import parse_qsl

from dramatiq.errors import BrokerConnectionError, BrokerError

from task_executor_dramatiq.messages import Job
from task_executor_dramatiq.own_connection import OwnConnection, ThreadConnection

log = logging.getLogger("task_executor_dramatiq")

TE404 = "TE404"
FAILED_TRANSACTION = "25P02"

Execute = Callable[[str, tuple[Any, ...]], Any]
"""Runs a statement with `%s` for its parameters, and returns its first row."""


class SendError(BrokerError):
    """The service has refused a message; the text says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)  # type: ignore[no-untyped-call]


class UnknownActorError(SendError):
    """No process has registered the actor yet."""


class EndedError(SendError):
    """The message has ended, so it cannot be cancelled."""


class MissingExecutionError(SendError):
    """The service has no execution of this id, or no longer."""


class PostgresSender:
    """Sends by te_enqueue, with psycopg 3 or 2; a connection for each thread, which commits each statement."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connect, self._parse = _driver()
        try:
            self._parse(url)
        except Exception:  # noqa: BLE001 - each driver raises its own, with the URL and its password
            raise ValueError(
                "url: it is no URL of PostgreSQL, such as postgresql://USER:PASSWORD@HOST/DATABASE (without +psycopg;"
                f" a % in the password is %25), or an option in it is unknown to the installed driver{_options_of(url)}"
            ) from None
        self._own: OwnConnection = ThreadConnection()

    def send(self, job: Job) -> None:
        """Create a job, unless it exists; raises SendError, UnknownActorError or BrokerConnectionError."""
        self.run(lambda execute: enqueue(execute, job))

    def run(self, work: Callable[[Execute], Any]) -> Any:
        """Run statements; once more on a new connection if the connection broke."""
        for is_last in (False, True):
            try:
                connection = self._own.get() or self._open()
                return work(execute_on(connection))
            except SendError:
                raise
            except Exception as error:
                is_broken = getattr(self._own.get(), "closed", True)
                self.close()
                if not is_broken or is_last:
                    raise BrokerConnectionError(f"the database does not take the message: {error}") from error
        raise AssertionError

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        """Run statements in one transaction of a new connection, which commits unless an exception ends it.

        Raises SendError if the block has gone on after a refused message, and BrokerConnectionError.
        """
        try:
            connection = self._connect(self.url, **self._settings())
        except Exception as error:
            raise BrokerConnectionError(f"the database does not answer: {error}") from error
        with closing(connection):
            execute = execute_on(connection)
            yield execute
            try:
                execute("SELECT 1", ())  # a COMMIT after a refusal would roll back, without an error
                connection.commit()
            except Exception as error:
                if state_of(error) == FAILED_TRANSACTION:
                    raise SendError("a message was refused, so no message of the transaction is sent") from error
                raise BrokerConnectionError(f"the database does not take the transaction: {error}") from error

    def close(self) -> None:
        self._own.close()

    def _open(self) -> Any:
        connection = self._own.set(self._connect(self.url, **self._settings()))
        connection.autocommit = True
        return connection

    def _settings(self) -> dict[str, Any]:
        """Return settings that replace the settings in the URL."""
        return {}


ENQUEUE = """SELECT is_new FROM te_enqueue(
    endpoint => %s, input => CAST(%s AS jsonb), idempotency_key => %s, delay => %s * INTERVAL '1 millisecond',
    name => %s, priority => %s)"""


def enqueue(execute: Execute, job: Job) -> None:
    """Create a job by te_enqueue, unless it exists; raises SendError."""
    parameters = (job.endpoint, json.dumps(job.input), job.key, job.delay_ms, job.key, job.priority)
    try:
        row = execute(ENQUEUE, parameters)
    except Exception as error:
        state = state_of(error)
        if state.startswith("TE4"):
            kind = UnknownActorError if state == TE404 else SendError
            raise kind(str(getattr(error, "orig", error)).partition("\n")[0]) from error
        if _is_of_a_value(error):
            raise SendError(
                "the id, the arguments or the options have a value that cannot be stored: NaN, an infinite number, "
                "a NUL character, or half of a surrogate pair"
            ) from error
        raise
    if not _only_value(row):
        note_repetition(job)


def _is_of_a_value(error: Exception) -> bool:
    """Return whether a driver or the database refuses a value: every driver of DB-API 2 has a class DataError."""
    return isinstance(error, ValueError) or any(each.__name__ == "DataError" for each in type(error).__mro__)


def _only_value(row: Any) -> Any:
    """Return the value of a row of one column, of any kind that the connection of a caller makes."""
    if isinstance(row, Mapping):
        return next(iter(row.values()))
    return row[0] if isinstance(row, Sequence) else row


def note_repetition(job: Job) -> None:
    """Log that a message exists already."""
    log.info("message %s is stored already and runs once; a copy with another message_id would run again", job.key)


def state_of(error: BaseException | None) -> str:
    """Return the SQLSTATE of an error of psycopg or SQLAlchemy, or an empty text."""
    source = getattr(error, "orig", error)
    return str(getattr(source, "sqlstate", None) or getattr(source, "pgcode", None) or "")


def execute_on(connection: Any) -> Execute:
    """Return the way to run a statement on a connection of DB-API."""

    def execute(sql: str, parameters: tuple[Any, ...]) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchone()

    return execute


def _driver() -> tuple[Callable[..., Any], Callable[[str], dict[str, Any]]]:
    """Return the ways to connect, and to read the settings in a URL."""
    try:
        import psycopg  # noqa: PLC0415 - either driver will do
        from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415
    except ImportError:
        try:
            import psycopg2.extensions  # noqa: PLC0415
        except ImportError:
            raise ImportError("install psycopg: pip install 'task-executor-dramatiq[postgresql]'") from None
        return psycopg2.connect, psycopg2.extensions.parse_dsn
    return psycopg.connect, conninfo_to_dict


def _options_of(url: str) -> str:
    """Return the names of the options of a URL; none if a name may be a part of a password."""
    address, _, query = url.partition("?")
    if not address.startswith(("postgresql://", "postgres://")) or "@" in query or "password" in query:
        return ""
    names = ", ".join(name for name, _ in parse_qsl(query))  # leaves out a name without a value
    return names and f": {names}"
