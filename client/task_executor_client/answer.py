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
    """HTTP response.

    Attributes:
        status: HTTP status.
        headers: Headers, with names in lower case.
        content: Body, without decoding.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes


class Answer(dict[str, Any]):
    """JSON object with its response headers: see `etag`, `replayed` and `request_id`.

    Operations return it for the TypedDicts of `models`. A copy made by `dict(answer)` loses the headers.

    Attributes:
        headers: Headers of the response, with names in lower case.
    """

    headers: Mapping[str, str] = {}


def etag(answer: Mapping[str, Any]) -> str | None:
    """Return the ETag of an answer, for `if_match` and `if_none_match`.

    Args:
        answer: Return value of an operation.

    Returns:
        The ETag with its quotes; None if the operation has no ETag, and for an item of a list or a copy.

    Example:
        found = te.configs.get("mail")
        values = found["values"] | {"sender": "noreply@example.org"}
        te.configs.replace("mail", if_match=etag(found), values=values)
    """
    return _header(answer, "etag")


def replayed(answer: Mapping[str, Any]) -> bool:
    """Return whether an earlier request with the same idempotency key produced the answer.

    Args:
        answer: Return value of an operation.

    Returns:
        True for the stored answer of an earlier request, a retry of the same call included. False otherwise, and for a
        copy of an answer.

    Example:
        job = te.jobs.create(endpoint="mail", trigger="IMMEDIATE", input={"to": "a@example.org"}, idempotency_key="o-7")
        if replayed(job):
            print("created before:", job["job_id"])
    """
    return _header(answer, "idempotency-replayed") == "true"


def request_id(answer: Mapping[str, Any]) -> str | None:
    """Return the id of the request in the log of the service.

    Args:
        answer: Return value of an operation.

    Returns:
        The value of `X-Request-ID`; None for an item of a list or a copy.

    Example:
        print(request_id(te.stats.get()))
    """
    return _header(answer, "x-request-id")


def _header(answer: Mapping[str, Any], name: str) -> str | None:
    return answer.headers.get(name) if isinstance(answer, Answer) else None


def read(call: Call, reply: Reply) -> Any:
    """Return the content of a reply.

    Args:
        call: Call that was sent.
        reply: Final reply, of any status.

    Returns:
        An Answer for a JSON object, another JSON value, text for `is_text`, or None without a body.

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
    """Return the error of a reply with a status outside 200 to 299.

    Args:
        call: Call that was sent.
        reply: Reply with an error.

    Returns:
        The class of the code in `errors`, or ApiError for an unknown code. UnexpectedAnswerError if the body is not an
        error of Task Executor.
    """
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
    """Return the seconds of Retry-After.

    Args:
        reply: Any reply.
        now: Unix time in seconds, to which a date is compared; None ignores dates.

    Returns:
        Seconds, at least 0; None without a valid Retry-After.
    """
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
