"""Transactional enqueue: create a job in your own transaction on the PostgreSQL database of the service.

The role of the connection needs EXECUTE on the function `te_enqueue`, and USAGE on its schema.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from .call import encoded, instant
from .failures import TaskExecutorError

# SQLSTATEs that te_enqueue raises.
_CODES = {
    "TE400": "INVALID_REQUEST",
    "TE404": "ENDPOINT_NOT_FOUND",
    "TE422": "INPUT_VALIDATION_FAILED",
    "TE503": "SERVICE_UNAVAILABLE",
}
_UNSTORABLE = "input, labels: a NUL character or half of a surrogate pair, which PostgreSQL cannot hold in JSON"
_HINTS = {
    "42883": "te_enqueue does not exist: use PostgreSQL (not CockroachDB), run the service's migrations here, "
    "and put their schema on the search_path or pass `schema`",
    "42501": "the role may not execute te_enqueue: GRANT it EXECUTE ON FUNCTION te_enqueue and USAGE ON SCHEMA",
}


class EnqueueError(TaskExecutorError):
    """Failed enqueue. The transaction can only continue from a savepoint before the call.

    Attributes:
        code: `INVALID_REQUEST`, `ENDPOINT_NOT_FOUND`, `INPUT_VALIDATION_FAILED`, or `SERVICE_UNAVAILABLE` if te_enqueue
            is missing, may not be executed or cannot answer.
        message: Explanation.

    Example:
        try:
            with session.begin_nested():
                enqueue(session, "mail", {"order": 7})
        except EnqueueError as error:
            print(error.code, error.message)
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        """Return the code and the message."""
        return f"{self.code}: {self.message}"


@dataclass(frozen=True, slots=True)
class Enqueued:
    """Job that exists once its transaction commits.

    Attributes:
        job_id: Id of the job.
        execution_id: Id of the execution; None for an earlier job without an execution.
        is_new: False if an earlier job has the same idempotency key; the ids are those of the earlier job.
    """

    job_id: str
    execution_id: str | None
    is_new: bool


class Options(TypedDict, total=False):
    """Optional fields of a job; None is the same as a missing field.

    Attributes:
        idempotency_key: Key of the purpose, such as an order's number: a second call with the key creates no job.
        run_at: Instant at which the job is due, with a time zone; now by default.
        delay: Time from now until the job is due, such as `10m`, or milliseconds; instead of `run_at`.
        name: Name of the job.
        labels: Labels of the job, for filters.
        queue: Queue of the execution; the endpoint's queue by default.
        priority: Priority of the execution; the endpoint's priority by default.
        traceparent: W3C trace context that the delivery continues.
        schema: Schema of te_enqueue, if it is not on the search_path.
    """

    idempotency_key: str | None
    run_at: datetime | None
    delay: timedelta | str | int | None
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
    """Enqueue a job in the current transaction of `connection`: the job exists if and only if it commits.

    Args:
        connection: SQLAlchemy Connection or Session, psycopg2 or psycopg connection, or Django's connection. In
            autocommit the job exists at once.
        endpoint: Name of the endpoint.
        input: Input of the job, of JSON values; a `datetime` needs a time zone. None for `{}`.
        **options: See `Options`.

    Returns:
        Ids of the job.

    Raises:
        EnqueueError: te_enqueue refuses the job, or is not available. Other errors of the connection pass unchanged.
        TypeError: The input has a value that is not JSON.
        ValueError: The input has a NaN or an infinity, or a `datetime` has no time zone.

    Example:
        with engine.begin() as connection:
            connection.execute(insert(orders).values(id=7))
            enqueue(connection, "mail", {"order": 7}, idempotency_key="order-7")
    """
    call = _Call.of(endpoint, input, options)
    with _explained():
        if hasattr(connection, "cursor"):
            with connection.cursor() as cursor:
                cursor.execute(call.statement(), call.values)
                return _enqueued(cursor.fetchone())
        # A Session of SQLAlchemy returns the connection of its transaction.
        own = connection if hasattr(connection, "exec_driver_sql") else connection.connection()
        statement = call.statement(numbered=own.dialect.paramstyle == "numeric_dollar")
        return Enqueued(*own.exec_driver_sql(statement, call.values).one())


async def enqueue_async(
    connection: Any,
    endpoint: str,
    input: Mapping[str, Any] | None = None,  # noqa: A002 - as the service calls it
    **options: Unpack[Options],
) -> Enqueued:
    """Enqueue a job in the current transaction of an asynchronous connection; see `enqueue`.

    Args:
        connection: asyncpg Connection in `connection.transaction()`, psycopg AsyncConnection, or SQLAlchemy
            AsyncConnection or AsyncSession. Without a transaction the job exists at once.
        endpoint: Name of the endpoint.
        input: Input of the job, of JSON values; a `datetime` needs a time zone. None for `{}`.
        **options: See `Options`.

    Returns:
        Ids of the job.

    Raises:
        EnqueueError: te_enqueue refuses the job, or is not available. Other errors of the connection pass unchanged.
        TypeError: The input has a value that is not JSON.
        ValueError: The input has a NaN or an infinity, or a `datetime` has no time zone.

    Example:
        async with connection.transaction():
            await connection.execute("INSERT INTO orders (id) VALUES (7)")
            await enqueue_async(connection, "mail", {"order": 7}, idempotency_key="order-7")
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
    # Connections with dictionary rows: unpacking a mapping would yield its keys.
    return Enqueued(**row) if isinstance(row, Mapping) else Enqueued(*row)


# Type in which each argument is sent, and type of te_enqueue's parameter. Preparing drivers encode by the first.
ARGUMENTS = (
    ("text", "text"),
    ("text", "jsonb"),
    ("text", "text"),
    ("text", "timestamptz"),
    ("text", "interval"),
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
            _interval(options.get("delay")),
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
            for number, (given, taken) in enumerate(ARGUMENTS, 1)
        )
        # The text contains only fixed names and the quoted schema.
        return f"SELECT job_id, execution_id, is_new FROM {self.function}({', '.join(arguments)})"  # noqa: S608


def _interval(delay: timedelta | str | int | None) -> str | None:
    """Return a delay as PostgreSQL reads it."""
    if isinstance(delay, timedelta):
        delay = delay // timedelta(milliseconds=1)
    return f"{delay} ms" if isinstance(delay, int) else delay


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
        if state in {"22007", "22015"} and "interval" in str(each):
            return EnqueueError("INVALID_REQUEST", "delay: must be a duration, such as 10m, PT10M, or milliseconds")
        if state in _HINTS and "te_enqueue" in str(each):
            return EnqueueError("SERVICE_UNAVAILABLE", _HINTS[state])
    return None


def _errors_in(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, the driver's error first."""
    # SQLAlchemy keeps the driver's error in `orig`, Django in `__cause__`; asyncpg's is the cause of SQLAlchemy's.
    inner = getattr(error, "orig", None) or error.__cause__
    if inner is not None:
        yield from _errors_in(inner)
    yield error
