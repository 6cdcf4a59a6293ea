"""Answers: JSON objects of the service together with their response headers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from .call import Call
from .errors import BY_CODE
from .failures import ApiError, NotModifiedError, UnexpectedAnswerError

MAX_BYTES = 64 * 1024 * 1024  # of a response body; the largest page of the service has a few MiB


@dataclass(frozen=True, slots=True)
class Reply:
    """HTTP response; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Answer(dict[str, Any]):
    """JSON object with its response headers: see `etag`, `replayed` and `request_id`."""

    headers: Mapping[str, str] = {}


def etag(answer: Mapping[str, Any]) -> str | None:
    """Return the ETag of an answer, for `if_match` and `if_none_match`.

    Example:
        found = te.endpoints.get("mail")
        te.endpoints.replace("mail", if_match=etag(found), **changed)
    """
    return _header(answer, "etag")


def replayed(answer: Mapping[str, Any]) -> bool:
    """Return whether an earlier request with the same idempotency key produced the answer."""
    return _header(answer, "idempotency-replayed") == "true"


def request_id(answer: Mapping[str, Any]) -> str | None:
    """Return the request's id in the log of the service."""
    return _header(answer, "x-request-id")


def _header(answer: Mapping[str, Any], name: str) -> str | None:
    return answer.headers.get(name) if isinstance(answer, Answer) else None


def read(call: Call, reply: Reply) -> Any:
    """Return the content of a reply: an Answer, text, another JSON value, or None.

    Raises:
        ApiError: The service refused the request.
        NotModifiedError: The state still matches `if_none_match`.
        UnexpectedAnswerError: The reply is not an answer of the service.
    """
    if reply.status == 304:
        raise NotModifiedError(f"{call.operation}: not modified since if_none_match")
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
    """Return the error of a reply with a status outside 200 to 299."""
    try:
        error = json.loads(reply.content)["error"]
        code, message = str(error["code"]), str(error["message"])
        details = [{"pointer": str(d["pointer"]), "message": str(d["message"])} for d in error.get("details", [])]
    except (ValueError, LookupError, TypeError):
        return UnexpectedAnswerError(
            f"{call.operation}: status {reply.status} without an error of Task Executor; check base_url and proxies"
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
    """Return the seconds of Retry-After, None without it; a date needs `now`, a Unix time in seconds."""
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
        raise UnexpectedAnswerError(f"{call.operation}: status {reply.status} without JSON") from None
