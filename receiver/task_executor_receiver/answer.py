"""Answers: HTTP responses that tell Task Executor how an attempt ended."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_RESULT_BYTES = 16_384
"""Largest stored result in bytes; the service keeps no more of a response."""


@dataclass(frozen=True, slots=True)
class Answer:
    """HTTP response with a JSON body, for any framework.

    Attributes:
        status: HTTP status code.
        body: JSON text.
        headers: Headers beside Content-Type.

    Example:
        answer = receiver.receive(request.headers.items(), request.get_data())
        response = Response(answer.body, answer.status, answer.all_headers)  # of Flask
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
        retry_after: Seconds before the next attempt, which the service honours with 409, 429 and 503. None leaves the
            wait to the retry policy.

    Attributes:
        answer: The answer to the service.

    Raises:
        ValueError: The status is not between 400 and 599.

    Example:
        def handler(delivery, session):
            order = delivery.json()
            if "order_id" not in order:
                raise Refused("the order has no order_id")
            if is_closed(order):
                raise Refused("the warehouse is closed", 503, retry_after=600)
    """

    def __init__(self, message: str, status: int = 410, retry_after: int | None = None) -> None:
        super().__init__(message)
        if not 400 <= status <= 599:
            raise ValueError(f"status {status} is not a refusal: use 400 to 599")
        self.answer = problem(status, "refused", message, retry_after)


def done(result: str | None, *, is_replayed: bool = False) -> Answer:
    """Return 200: the effect was applied.

    Args:
        result: JSON text of the handler's result; None for `null`.
        is_replayed: Whether an earlier attempt applied the effect; adds `Idempotency-Replayed: true`.
    """
    return Answer(200, "null" if result is None else result, {"Idempotency-Replayed": "true"} if is_replayed else {})


def busy(retry_after: int) -> Answer:
    """Return 409: another attempt is running.

    Args:
        retry_after: Seconds before the next attempt.
    """
    return problem(409, "busy", "another attempt of this execution is running", retry_after)


def stale(retry_after: int) -> Answer:
    """Return 409: a newer attempt was received already.

    The service normally ignores the answer, because it has abandoned the older attempt. The status is not 410, which
    would fail the execution for good: a service restored from a backup sends old attempt numbers again.

    Args:
        retry_after: Seconds before the next attempt.
    """
    return problem(409, "stale", "a newer attempt of this execution was received already", retry_after)


def problem(status: int, reason: str, message: str, retry_after: int | None = None) -> Answer:
    """Return an error answer: `{"error": {"reason": …, "message": …}}`.

    Args:
        status: HTTP status code.
        reason: Short code for programs.
        message: Explanation for people.
        retry_after: Seconds before the next attempt; None for no Retry-After.
    """
    body = json.dumps({"error": {"reason": reason, "message": message}})
    return Answer(status, body, {} if retry_after is None else {"Retry-After": str(retry_after)})


def written(result: Any) -> str | None:
    """Serialise a handler's result.

    Args:
        result: Any JSON value.

    Returns:
        ASCII JSON; None for None.

    Raises:
        ValueError: The result is not JSON, contains a NaN or an infinity, or exceeds MAX_RESULT_BYTES.
    """
    if result is None:
        return None
    try:
        text = json.dumps(result, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the handler's result is not JSON: {error}") from None
    if len(text) > MAX_RESULT_BYTES:
        raise ValueError(f"the handler's result has {len(text)} bytes; at most {MAX_RESULT_BYTES} are allowed")
    return text
