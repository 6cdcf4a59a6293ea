"""Transactional enqueue: create a job in your own transaction on the PostgreSQL database of the service.

`enqueue` and `enqueue_async` take the name of an endpoint, `send` and `send_async` a URL. The role of the connection
needs EXECUTE on the function `te_enqueue` or `te_send`, and USAGE on its schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, Unpack

from .transaction_call import Options, SendOptions, SqlCall, enqueuing, sending
from .transaction_errors import EnqueueError, explained

__all__ = ["EnqueueError", "Enqueued", "Options", "SendOptions", "enqueue", "enqueue_async", "send", "send_async"]


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
        TypeError: The input has a value that is not JSON, an option is unknown, or the connection is asynchronous.
        ValueError: The input has a NaN or an infinity, or a `datetime` has no time zone.

    Example:
        with engine.begin() as connection:
            connection.execute(insert(orders).values(id=7))
            enqueue(connection, "mail", {"order": 7}, idempotency_key="order-7")
    """
    return _run(connection, enqueuing(endpoint, input, options))


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
        TypeError: The input has a value that is not JSON, or an option is unknown.
        ValueError: The input has a NaN or an infinity, or a `datetime` has no time zone.

    Example:
        async with connection.transaction():
            await connection.execute("INSERT INTO orders (id) VALUES (7)")
            await enqueue_async(connection, "mail", {"order": 7}, idempotency_key="order-7")
    """
    return await _run_async(connection, enqueuing(endpoint, input, options))


def send(connection: Any, url: str, body: Any = None, **options: Unpack[SendOptions]) -> Enqueued:
    """Enqueue a job that sends a JSON body to a URL, without an endpoint; the job exists if and only if you commit.

    Args:
        connection: As for `enqueue`.
        url: HTTP or HTTPS URL, without templates and secrets; a host with other letters than ASCII in punycode.
        body: JSON value to send; None for no body.
        **options: See `SendOptions`.

    Returns:
        Ids of the job.

    Raises:
        EnqueueError: te_send refuses the job, or is not available. Other errors of the connection pass unchanged.
        TypeError: The body has a value that is not JSON, or an option is unknown.
        ValueError: The body has a NaN or an infinity, or a `datetime` has no time zone.

    Example:
        with engine.begin() as connection:
            connection.execute(insert(orders).values(id=7))
            send(connection, "https://shop.example/reminders", {"order": 7}, delay="10m")
    """
    return _run(connection, sending(url, body, options))


async def send_async(connection: Any, url: str, body: Any = None, **options: Unpack[SendOptions]) -> Enqueued:
    """Enqueue a job for a URL in the transaction of an asynchronous connection; see `send`.

    Args:
        connection: As for `enqueue_async`.
        url: HTTP or HTTPS URL, without templates and secrets; a host with other letters than ASCII in punycode.
        body: JSON value to send; None for no body.
        **options: See `SendOptions`.

    Returns:
        Ids of the job.

    Raises:
        EnqueueError: te_send refuses the job, or is not available. Other errors of the connection pass unchanged.
        TypeError: The body has a value that is not JSON, or an option is unknown.
        ValueError: The body has a NaN or an infinity, or a `datetime` has no time zone.

    Example:
        async with connection.transaction():
            await connection.execute("INSERT INTO orders (id) VALUES (7)")
            await send_async(connection, "https://shop.example/reminders", {"order": 7}, delay="10m")
    """
    return await _run_async(connection, sending(url, body, options))


def _run(connection: Any, call: SqlCall) -> Enqueued:
    if iscoroutinefunction(getattr(connection, "execute", None)):
        raise TypeError(f"{type(connection).__name__} is asynchronous: await enqueue_async or send_async")
    with explained():
        if hasattr(connection, "cursor"):
            with connection.cursor() as cursor:
                cursor.execute(call.statement(), call.values)
                return _enqueued(cursor.fetchone())
        # A Session of SQLAlchemy returns the connection of its transaction.
        own = connection if hasattr(connection, "exec_driver_sql") else connection.connection()
        statement = call.statement(numbered=own.dialect.paramstyle == "numeric_dollar")
        return Enqueued(*own.exec_driver_sql(statement, call.values).one())


async def _run_async(connection: Any, call: SqlCall) -> Enqueued:
    if hasattr(connection, "run_sync"):
        found: Enqueued = await connection.run_sync(_run, call)
        return found
    with explained():
        if hasattr(connection, "fetchrow"):
            return Enqueued(*await connection.fetchrow(call.statement(numbered=True), *call.values))
        async with connection.cursor() as cursor:
            await cursor.execute(call.statement(), call.values)
            return _enqueued(await cursor.fetchone())


def _enqueued(row: Any) -> Enqueued:
    # Connections with dictionary rows: unpacking a mapping would yield its keys.
    return Enqueued(**row) if isinstance(row, Mapping) else Enqueued(*row)
