"""Errors of `transaction`, from the SQLSTATEs that the SQL functions raise."""

from collections.abc import Iterator
from contextlib import contextmanager

from .failures import TaskExecutorError

# SQLSTATEs that te_enqueue and te_send raise.
_CODES = {
    "TE400": "INVALID_REQUEST",
    "TE403": "FORBIDDEN",
    "TE404": "ENDPOINT_NOT_FOUND",
    "TE409": "CONFLICT",
    "TE422": "INPUT_VALIDATION_FAILED",
    "TE42T": "TEMPLATE_RESOLUTION_FAILED",
    "TE503": "SERVICE_UNAVAILABLE",
}
_UNSTORABLE = "input, body, labels: a NUL character or half of a surrogate pair, which PostgreSQL cannot hold in JSON"
_HINTS = {
    "42883": "the function does not exist: use PostgreSQL (not CockroachDB), run the service's migrations here, "
    "and put their schema on the search_path or pass `schema`",
    "42501": "the role may not execute the function: GRANT it EXECUTE ON FUNCTION te_enqueue (or te_send) and USAGE "
    "ON SCHEMA",
}


class EnqueueError(TaskExecutorError):
    """Failed enqueue. The transaction can only continue from a savepoint before the call.

    Attributes:
        code: `INVALID_REQUEST`, `ENDPOINT_NOT_FOUND`, `INPUT_VALIDATION_FAILED`, or `SERVICE_UNAVAILABLE` if the
            function is missing, may not be executed or cannot answer, `FORBIDDEN` if the role has no grant of the
            endpoint. `send` also raises `FORBIDDEN` (turned off), `CONFLICT` (too many inline endpoints) and
            `TEMPLATE_RESOLUTION_FAILED` (no such secret).
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


@contextmanager
def explained() -> Iterator[None]:
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
            return EnqueueError(_CODES[state], _message_of(each))
        if state == "22P05" or (state == "22P02" and "json" in str(each)):
            return EnqueueError("INVALID_REQUEST", _UNSTORABLE)
        if state in {"22007", "22015"} and "interval" in str(each):
            return EnqueueError("INVALID_REQUEST", "delay: must be a duration, such as 10m, PT10M, or milliseconds")
        if state in _HINTS and ("te_enqueue" in str(each) or "te_send" in str(each)):
            return EnqueueError("SERVICE_UNAVAILABLE", _HINTS[state])
    return None


def _message_of(error: BaseException) -> str:
    """Return the message of a function and its hint, which psycopg keeps in `diag` and asyncpg in the error."""
    diagnosis = getattr(error, "diag", None)
    message = getattr(diagnosis, "message_primary", None) or getattr(error, "message", None) or str(error)
    hint = getattr(diagnosis, "message_hint", None) or getattr(error, "hint", None)
    message = message.removeprefix("te_send: ").removeprefix("te_enqueue: ")
    return f"{message}. {hint}" if hint else message


def _errors_in(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, the driver's error first."""
    # SQLAlchemy keeps the driver's error in `orig`, Django in `__cause__`; asyncpg's is the cause of SQLAlchemy's.
    inner = getattr(error, "orig", None) or error.__cause__
    if inner is not None:
        yield from _errors_in(inner)
    yield error
