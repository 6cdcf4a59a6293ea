"""Enqueue in the caller's own transaction, on the PostgreSQL database of the service."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict, Unpack

from .call import encoded, instant
from .failures import TaskExecutorError

# Of te_enqueue, and of a database that does not have it or does not let us.
_CODES = {
    "TE400": "INVALID_REQUEST",
    "TE404": "ENDPOINT_NOT_FOUND",
    "TE422": "INPUT_VALIDATION_FAILED",
    "TE503": "SERVICE_UNAVAILABLE",
}
_UNSTORABLE = "input, labels: a NUL character or half of a surrogate pair, which PostgreSQL cannot hold in JSON"
_HINTS = {
    "42883": "te_enqueue is not there: it needs PostgreSQL (CockroachDB has none), the migrations of the service in "
    "this database, and a search_path with their schema, or `schema`",
    "42501": "this role may not execute te_enqueue: GRANT EXECUTE ON FUNCTION te_enqueue TO it, and USAGE ON SCHEMA",
}


class EnqueueError(TaskExecutorError):
    """The job could not be enqueued; PostgreSQL goes on with the transaction only from a savepoint before it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        """Return the code and the message."""
        return f"{self.code}: {self.message}"


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A job that exists once its transaction is committed; not `is_new`: an earlier one has the key."""

    job_id: str
    execution_id: str | None
    is_new: bool


class Options(TypedDict, total=False):
    """What a job may have besides endpoint and input; `schema` is where te_enqueue is, if not in the search_path."""

    idempotency_key: str | None
    run_at: datetime | None
    name: str | None
    labels: Mapping[str, str] | None
    queue: str | None
    priority: int | None
    traceparent: str | None
    schema: str | None


def enqueue(
    connection: Any,
    endpoint: str,
    input: Mapping[str, Any] | None = None,  # noqa: A002 - as the service calls it
    **options: Unpack[Options],
) -> Enqueued:
    """Enqueue a job in the transaction that `connection` is in: it exists if and only if that is committed.

    In autocommit there is no such transaction: it exists at once. `connection` is one of SQLAlchemy (Connection or
    Session), of psycopg2 or psycopg, or Django's. Raises EnqueueError for what the function refuses; errors of the
    connection are raised as they are.
    """
    call = _Call.of(endpoint, input, options)
    with _explained():
        if hasattr(connection, "cursor"):
            with connection.cursor() as cursor:
                cursor.execute(call.statement(), call.values)
                return _enqueued(cursor.fetchone())
        # A Session of SQLAlchemy has the connection of its transaction.
        own = connection if hasattr(connection, "exec_driver_sql") else connection.connection()
        statement = call.statement(numbered=own.dialect.paramstyle == "numeric_dollar")
        return Enqueued(*own.exec_driver_sql(statement, call.values).one())


async def enqueue_async(
    connection: Any,
    endpoint: str,
    input: Mapping[str, Any] | None = None,  # noqa: A002 - as the service calls it
    **options: Unpack[Options],
) -> Enqueued:
    """Do what `enqueue` does, without blocking.

    `connection` is one of asyncpg, of psycopg (AsyncConnection), or of SQLAlchemy (AsyncConnection or AsyncSession).
    """
    if hasattr(connection, "run_sync"):
        found: Enqueued = await connection.run_sync(lambda own: enqueue(own, endpoint, input, **options))
        return found
    call = _Call.of(endpoint, input, options)
    with _explained():
        if hasattr(connection, "fetchrow"):
            return Enqueued(*await connection.fetchrow(call.statement(numbered=True), *call.values))
        async with connection.cursor() as cursor:
            await cursor.execute(call.statement(), call.values)
            return _enqueued(await cursor.fetchone())


def _enqueued(row: Any) -> Enqueued:
    # By name where connections make dictionaries: these would give their keys.
    return Enqueued(**row) if isinstance(row, Mapping) else Enqueued(*row)


# How each argument is given, and what te_enqueue takes it as. Drivers that prepare statements encode by the former.
_ARGUMENTS = (
    ("text", "text"),
    ("text", "jsonb"),
    ("text", "text"),
    ("text", "timestamptz"),
    ("text", "text"),
    ("text", "jsonb"),
    ("text", "text"),
    ("bigint", "bigint"),
    ("text", "text"),
)


@dataclass(frozen=True, slots=True)
class _Call:
    function: str
    values: tuple[Any, ...]

    @classmethod
    def of(cls, endpoint: str, data: Mapping[str, Any] | None, options: Options) -> "_Call":
        run_at, labels, schema = options.get("run_at"), options.get("labels"), options.get("schema")
        values = (
            endpoint,
            encoded({} if data is None else data).decode(),
            options.get("idempotency_key"),
            None if run_at is None else instant(run_at),
            options.get("name"),
            None if labels is None else json.dumps(dict(labels)),
            options.get("queue"),
            options.get("priority"),
            options.get("traceparent"),
        )
        return cls("te_enqueue" if schema is None else '"' + schema.replace('"', '""') + '".te_enqueue', values)

    def statement(self, *, numbered: bool = False) -> str:
        arguments = (
            f"CAST(CAST({f'${number}' if numbered else '%s'} AS {given}) AS {taken})"
            for number, (given, taken) in enumerate(_ARGUMENTS, 1)
        )
        # Only names of ours and the quoted schema are in the text.
        return f"SELECT job_id, execution_id, is_new FROM {self.function}({', '.join(arguments)})"  # noqa: S608


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        known = _known(error)
        if known is None:
            raise
        raise known from error


def _known(error: BaseException) -> EnqueueError | None:
    for each in _errors_in(error):
        state = getattr(each, "sqlstate", None) or getattr(each, "pgcode", None)
        if state in _CODES:
            message = getattr(getattr(each, "diag", None), "message_primary", None) or str(each)
            return EnqueueError(_CODES[state], message.removeprefix("te_enqueue: "))
        if state == "22P05" or (state == "22P02" and "json" in str(each)):
            return EnqueueError("INVALID_REQUEST", _UNSTORABLE)
        if state in _HINTS and "te_enqueue" in str(each):
            return EnqueueError("SERVICE_UNAVAILABLE", _HINTS[state])
    return None


def _errors_in(error: BaseException) -> Iterator[BaseException]:
    """Give the errors that one is made of, the driver's own first."""
    # SQLAlchemy keeps the driver's error as `orig`, Django as the cause, and asyncpg's is the cause of SQLAlchemy's.
    inner = getattr(error, "orig", None) or error.__cause__
    if inner is not None:
        yield from _errors_in(inner)
    yield error
