"""Answers: dictionaries that also know the headers they came with."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from .call import Call
from .errors import BY_CODE
from .failures import ApiError, NotModifiedError, UnexpectedAnswerError

MOST_BYTES = 64 * 1024 * 1024  # of an answer; the largest page of the service has a few MiB


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as it came; the names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Answer(dict[str, Any]):
    """A JSON object of the service, with the headers that it came with: see `etag`, `replayed` and `request_id`."""

    headers: Mapping[str, str] = {}


def etag(answer: Mapping[str, Any]) -> str | None:
    """Return the tag of the state that an answer shows, for `if_match` and `if_none_match`."""
    return _header(answer, "etag")


def replayed(answer: Mapping[str, Any]) -> bool:
    """Return whether an answer is that of an earlier request with the same idempotency key."""
    return _header(answer, "idempotency-replayed") == "true"


def request_id(answer: Mapping[str, Any]) -> str | None:
    """Return the id by which the log of the service knows the request."""
    return _header(answer, "x-request-id")


def _header(answer: Mapping[str, Any], name: str) -> str | None:
    return answer.headers.get(name) if isinstance(answer, Answer) else None


def read(call: Call, reply: Reply) -> Any:
    """Return what a reply says: an Answer, text, another JSON value, or None.

    Raises ApiError, NotModifiedError or UnexpectedAnswerError.
    """
    if reply.status == 304:
        raise NotModifiedError(f"{call.operation}: nothing has changed")
    if not 200 <= reply.status < 300:
        raise error_of(call, reply)
    if reply.status == 204 or not reply.content:
        return None
    if call.is_text:
        return reply.content.decode(errors="replace")
    value = _parsed(call, reply)
    if isinstance(value, dict):
        answer = Answer(value)
        answer.headers = reply.headers
        return answer
    return value


def error_of(call: Call, reply: Reply) -> ApiError | UnexpectedAnswerError:
    """Return the error that a reply is."""
    try:
        error = json.loads(reply.content)["error"]
        code, message = str(error["code"]), str(error["message"])
        details = [{"pointer": str(d["pointer"]), "message": str(d["message"])} for d in error.get("details", [])]
    except (ValueError, LookupError, TypeError):
        return UnexpectedAnswerError(
            f"{call.operation} was answered {reply.status} by something that is not the service: "
            "is base_url right, and is a proxy in between?"
        )
    return BY_CODE.get(code, ApiError)(
        call.operation,
        reply.status,
        code,
        message,
        details=details,  # type: ignore[arg-type]
        request_id=reply.headers.get("x-request-id") or error.get("request_id"),
        retryable=error.get("retryable") is True,
        retry_after=retry_after(reply),
    )


def retry_after(reply: Reply, now: float | None = None) -> float | None:
    """Return how many seconds the service asks to wait; `now` is the epoch for a date."""
    text = reply.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return float(text)
    if now is None or not text:
        return None
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except ValueError:
        return None


def _parsed(call: Call, reply: Reply) -> Any:
    try:
        return json.loads(reply.content)
    except ValueError:
        raise UnexpectedAnswerError(f"{call.operation} was answered {reply.status} without JSON") from None
