"""Answers: what Task Executor is told, so that it does the right thing."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_RESULT_BYTES = 16_384
"""What the service keeps of an answer; a handler's result may not be longer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, headers and a body of JSON."""

    status: int
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def all_headers(self) -> dict[str, str]:
        """Return the headers with the type of the body."""
        return {"Content-Type": "application/json", **self.headers}


class Refused(Exception):  # noqa: N818 - an answer, not an error
    """Raise it in a handler to have no effect and to say why; what was done in the transaction is rolled back.

    With 410 the execution fails for good. Any other status of 400 and more is a failed attempt, tried again as the
    endpoint's retry policy says; with 409, 429 and 503 not before `retry_after` seconds.
    """

    def __init__(self, message: str, status: int = 410, retry_after: int | None = None) -> None:
        super().__init__(message)
        if not 400 <= status <= 599:
            raise ValueError(f"{status} would say that there was an effect: 400 to 599 are refusals")
        self.answer = problem(status, "refused", message, retry_after)


def done(result: str | None, *, is_replayed: bool = False) -> Answer:
    """Say that the execution has had its effect: now, or `is_replayed`, at an earlier attempt."""
    return Answer(200, "null" if result is None else result, {"Idempotency-Replayed": "true"} if is_replayed else {})


def busy(retry_after: int) -> Answer:
    """Say that another attempt is at work: ask again in so many seconds."""
    return problem(409, "busy", "another attempt of this execution is at work", retry_after)


def stale(retry_after: int) -> Answer:
    """Say that a newer attempt has been here.

    The service has given the older one up, so this reaches nobody who listens. It is not 410, which would fail the
    execution for good, for the case in which somebody does: a service restored from a backup counts from where it was.
    """
    return problem(409, "stale", "a newer attempt of this execution has been here", retry_after)


def problem(status: int, reason: str, message: str, retry_after: int | None = None) -> Answer:
    """Say why nothing was done."""
    body = json.dumps({"error": {"reason": reason, "message": message}})
    return Answer(status, body, {} if retry_after is None else {"Retry-After": str(retry_after)})


def written(result: Any) -> str | None:
    """Write a handler's result; raises ValueError when it is no JSON or longer than MAX_RESULT_BYTES."""
    if result is None:
        return None
    try:
        text = json.dumps(result, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the handler's result is no JSON: {error}") from None
    if len(text) > MAX_RESULT_BYTES:
        raise ValueError(f"the handler's result has {len(text)} bytes: {MAX_RESULT_BYTES} are allowed")
    return text
