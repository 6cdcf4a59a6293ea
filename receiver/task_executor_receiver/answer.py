"""Answers: HTTP responses that tell Task Executor how an attempt ended."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_RESULT_BYTES = 16_384
"""Largest stored result in bytes; the service keeps no more of a response."""


@dataclass(frozen=True, slots=True)
class Answer:
    """HTTP response with a JSON body.

    Attributes:
        status: HTTP status code.
        body: JSON text.
        headers: Headers beside Content-Type.
    """

    status: int
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def all_headers(self) -> dict[str, str]:
        """Return the headers including Content-Type."""
        return {"Content-Type": "application/json", **self.headers}


class Refused(Exception):  # noqa: N818 - an answer, not an error
    """Refusal of a delivery: raise it in a handler to roll back the transaction and report the reason.

    Args:
        message: Reason, stored with the attempt.
        status: 410 fails the execution for good. Any other status from 400 to 599 fails the attempt, which is
            retried under the endpoint's retry policy.
        retry_after: Seconds before the next attempt; the service honours it with 409, 429 and 503.

    Raises:
        ValueError: The status is not between 400 and 599.

    Example:
        raise Refused("the order has no order_id")
    """

    def __init__(self, message: str, status: int = 410, retry_after: int | None = None) -> None:
        super().__init__(message)
        if not 400 <= status <= 599:
            raise ValueError(f"status {status} is not a refusal: use 400 to 599")
        self.answer = problem(status, "refused", message, retry_after)


def done(result: str | None, *, is_replayed: bool = False) -> Answer:
    """Return 200: the effect was applied by this attempt or, with `is_replayed`, by an earlier attempt."""
    return Answer(200, "null" if result is None else result, {"Idempotency-Replayed": "true"} if is_replayed else {})


def busy(retry_after: int) -> Answer:
    """Return 409: another attempt is running; `retry_after` is in seconds."""
    return problem(409, "busy", "another attempt of this execution is running", retry_after)


def stale(retry_after: int) -> Answer:
    """Return 409: a newer attempt was received already.

    The service normally ignores the answer, because it has abandoned the older attempt. The status is not 410, which
    would fail the execution for good: a service restored from a backup sends old attempt numbers again.
    """
    return problem(409, "stale", "a newer attempt of this execution was received already", retry_after)


def problem(status: int, reason: str, message: str, retry_after: int | None = None) -> Answer:
    """Return an error answer with a machine-readable `reason`."""
    body = json.dumps({"error": {"reason": reason, "message": message}})
    return Answer(status, body, {} if retry_after is None else {"Retry-After": str(retry_after)})


def written(result: Any) -> str | None:
    """Serialise a handler's result; raises ValueError if it is not JSON or exceeds MAX_RESULT_BYTES."""
    if result is None:
        return None
    try:
        text = json.dumps(result, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the handler's result is not JSON: {error}") from None
    if len(text) > MAX_RESULT_BYTES:
        raise ValueError(f"the handler's result has {len(text)} bytes; at most {MAX_RESULT_BYTES} are allowed")
    return text
