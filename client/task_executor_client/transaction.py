"""Enqueue in the caller's own transaction, on the PostgreSQL database of the service."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .call import encoded, instant
from .failures import TaskExecutorError

_CASTS = ("text", "jsonb", "text", "timestamptz", "text", "jsonb", "text", "bigint", "text")
# Of te_enqueue, and of a database that does not have it or does not let us.
_CODES = {
    "TE400": "INVALID_REQUEST",
    "TE404": "ENDPOINT_NOT_FOUND",
    "TE422": "INPUT_VALIDATION_FAILED",
    "TE503": "SERVICE_UNAVAILABLE",
}
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


def enqueue(
    connection: Any,
    endpoint: str,
    input: Mapping[str, Any] | None = None,  # noqa: A002 - as the service calls it
    *,
    idempotency_key: str | None = None,
    run_at: datetime | None = None,
    name: str | None = None,
    labels: Mapping[str, str] | None = None,
    queue: str | None = None,
    priority: int | None = None,
    traceparent: str | None = None,
    schema: str | None = None,
) -> Enqueued:
    """Enqueue a job in the transaction that `connection` is in: it exists if and only if that is committed.

    `connection` is one of SQLAlchemy (Connection or Session), of psycopg2 or psycopg, or Django's. Raises EnqueueError
    for what the function refuses; errors of the connection are raised as they are.
    """
    values = (
        endpoint,
        encoded(input or {}).decode(),
        idempotency_key,
        None if run_at is None else instant(run_at),
        name,
        None if labels is None else json.dumps(dict(labels)),
        queue,
        priority,
        traceparent,
    )
    function = "te_enqueue" if schema is None else '"' + schema.replace('"', '""') + '".te_enqueue'
    arguments = ", ".join(f"CAST(%s AS {cast})" for cast in _CASTS)
    try:
        # Only names of ours and the quoted schema are in the text.
        row = _row(connection, f"SELECT job_id, execution_id, is_new FROM {function}({arguments})", values)  # noqa: S608
    except Exception as error:
        known = _known(error)
        if known is None:
            raise
        raise known from error
    return Enqueued(*row)


def _row(connection: Any, statement: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    if hasattr(connection, "cursor"):
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            return tuple(cursor.fetchone())
    # A Session of SQLAlchemy has the connection of its transaction.
    own = connection if hasattr(connection, "exec_driver_sql") else connection.connection()
    return tuple(own.exec_driver_sql(statement, values).one())


def _known(error: BaseException) -> EnqueueError | None:
    # SQLAlchemy keeps the driver's error as `orig`, Django as the cause.
    for each in (error, getattr(error, "orig", None), error.__cause__):
        state = getattr(each, "sqlstate", None) or getattr(each, "pgcode", None)
        if state in _CODES:
            message = getattr(getattr(each, "diag", None), "message_primary", None) or str(each)
            return EnqueueError(_CODES[state], message.removeprefix("te_enqueue: "))
        if state in _HINTS and "te_enqueue" in str(each):
            return EnqueueError("SERVICE_UNAVAILABLE", _HINTS[state])
    return None
