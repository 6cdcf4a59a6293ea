"""Responses for errors in the OpenAPI document: one for each status, with its codes and examples."""

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from itertools import groupby
from operator import attrgetter
from typing import Any

from app.kernel.errors import Detail, RateLimitedError, TaskExecutorError, UnauthorizedError, UnprocessableError
from app.web.http.error_envelope import envelope

Errors = Sequence[type[TaskExecutorError]]

_EXAMPLE_DETAIL: Detail = {"pointer": "/name", "message": "Required."}
_RETRY_AFTER: dict[str, Any] = {"description": "seconds to wait", "schema": {"type": "integer", "minimum": 1}}
_NUMBER = {"description": "present while a limit is set", "schema": {"type": "integer", "minimum": 0}}
_AUTHENTICATE = {"description": "how to authenticate", "schema": {"type": "string"}}


def names_of(errors: Iterable[type[TaskExecutorError]]) -> Mapping[int, tuple[str, Errors]]:
    """Group errors by status; each group has a name, which equal groups of all operations share."""
    distinct = {(error.status, error.code): error for error in sorted(errors, key=attrgetter("__name__"))}
    groups = groupby([distinct[key] for key in sorted(distinct)], key=attrgetter("status"))
    by_status = {status: list(group) for status, group in groups}
    codes = {status: "-".join(error.code for error in group) for status, group in by_status.items()}
    return {status: (f"{status}-{codes[status]}", group) for status, group in by_status.items()}


def response_of(status: int, errors: Errors) -> dict[str, Any]:
    """Describe the response for errors of a status, with its codes and an example of each."""
    code = {"type": "string", "enum": [error.code for error in errors]}
    narrowed = {"type": "object", "properties": {"error": {"type": "object", "properties": {"code": code}}}}
    content = {
        "schema": {"allOf": [{"$ref": "#/components/schemas/Error"}, narrowed]},
        "examples": {error.code: {"value": _example(error)} for error in errors},
    }
    lines = [HTTPStatus(status).phrase, *(f"- `{error.code}`: {error.summary()}" for error in errors)]
    headers = {"Retry-After": _RETRY_AFTER} if any(error.retryable for error in errors) else {}
    if RateLimitedError in errors:
        headers |= {f"RateLimit-{name}": _NUMBER for name in ("Limit", "Remaining", "Reset")}
    if UnauthorizedError in errors:
        headers["WWW-Authenticate"] = _AUTHENTICATE
    described = {"description": "\n".join(lines), "content": {"application/json": content}}
    return described | {"headers": headers} if headers else described


def _example(error: type[TaskExecutorError]) -> dict[str, Any]:
    details = [_EXAMPLE_DETAIL] if error.status == 400 or issubclass(error, UnprocessableError) else []
    return envelope(error.code, error.summary(), "req_9a8b7c6d5e4f", details=details, retryable=error.retryable)
