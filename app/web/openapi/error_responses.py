"""Error responses of the OpenAPI document, derived from the error classes."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from itertools import groupby
from operator import attrgetter
from typing import Any

from app.kernel.errors import Detail, RateLimitedError, TaskExecutorError, UnauthorizedError, UnprocessableError
from app.web.http.error_envelope import envelope

Errors = Iterable[type[TaskExecutorError]]

_EXAMPLE_ID = "req_9a8b7c6d5e4f"
_EXAMPLE_DETAIL: Detail = {"pointer": "/name", "message": "Missing data for required field."}
_RETRY_AFTER = {"description": "seconds to wait", "schema": {"type": "integer", "minimum": 1}}
_NUMBER = {"description": "present while a limit is set", "schema": {"type": "integer", "minimum": 0}}
_AUTHENTICATE = {"description": "how to authenticate", "schema": {"type": "string"}}


def by_status(errors: Errors) -> Mapping[int, list[type[TaskExecutorError]]]:
    """Group error classes by HTTP status, one class per code."""
    distinct = {(error.status, error.code): error for error in sorted(errors, key=attrgetter("__name__"))}
    ordered = [distinct[key] for key in sorted(distinct)]
    return {status: list(group) for status, group in groupby(ordered, key=attrgetter("status"))}


def name_of(errors: Errors) -> str:
    """Return the name of the response that describes errors of one status."""
    listed = list(errors)
    return "-".join([str(listed[0].status), *(error.code for error in listed)])


def response_of(errors: Errors) -> dict[str, Any]:
    """Describe the response for errors of one status, with its codes and an example of each."""
    listed = list(errors)
    code = {"type": "string", "enum": [error.code for error in listed]}
    narrowed = {"type": "object", "properties": {"error": {"type": "object", "properties": {"code": code}}}}
    content = {
        "schema": {"allOf": [{"$ref": "#/components/schemas/Error"}, narrowed]},
        "examples": {error.code: {"value": _example(error)} for error in listed},
    }
    phrase = HTTPStatus(listed[0].status).phrase
    lines = [phrase, *(f"- `{error.code}`: {error.summary()}" for error in listed)]
    described = {"description": "\n".join(lines), "content": {"application/json": content}}
    headers = _headers(listed)
    return described | {"headers": headers} if headers else described


def _example(error: type[TaskExecutorError]) -> dict[str, Any]:
    details = [_EXAMPLE_DETAIL] if error.status == 400 or issubclass(error, UnprocessableError) else []
    return envelope(error.code, error.summary(), _EXAMPLE_ID, details=details, retryable=error.retryable)


def _headers(errors: list[type[TaskExecutorError]]) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if any(error.retryable for error in errors):
        headers["Retry-After"] = _RETRY_AFTER
    if RateLimitedError in errors:
        headers |= {f"RateLimit-{name}": _NUMBER for name in ("Limit", "Remaining", "Reset")}
    if any(issubclass(error, UnauthorizedError) for error in errors):
        headers["WWW-Authenticate"] = _AUTHENTICATE
    return headers
