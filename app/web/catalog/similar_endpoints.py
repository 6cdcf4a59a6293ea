"""Errors about a misspelt endpoint: they name the field, and to keys that may read endpoints a similar name."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from flask import Flask, Response, g, request

from app.catalog.endpoints import versions
from app.kernel.access.api_keys import Scope
from app.kernel.errors import (
    EndpointNotFoundError,
    InvalidCallbackError,
    InvalidNotificationRuleError,
    InvalidWorkflowError,
    TaskExecutorError,
    UnavailableError,
)
from app.kernel.suggestions import MAX_SUGGESTED, did_you_mean
from app.web.http import error_envelope
from app.web.services import services

T = TypeVar("T")
_MISSING = re.compile(r"There is no endpoint named '([^']+)'\.")
_FIELDS = ("endpoint", "to_endpoint")  # of bodies, with the name of an endpoint
_IN_LIST = " GET /endpoints lists the endpoints."
_WITH_FAULTS = (InvalidCallbackError, InvalidNotificationRuleError, InvalidWorkflowError)


def register(app: Flask) -> None:
    """Answer with a suggestion if an endpoint does not exist: the named endpoint, or an endpoint that a field names."""
    for kind in (EndpointNotFoundError, *_WITH_FAULTS):
        app.register_error_handler(kind, _answer)


def completed(outcomes: Sequence[T], bodies: Sequence[Any]) -> list[T | TaskExecutorError]:
    """Return the outcomes of bodies; errors about absent endpoints have fields, and for some names suggestions."""
    near = _Suggestions()
    return [
        _explained(outcome, body, near, _IN_LIST) if isinstance(outcome, TaskExecutorError) else outcome
        for outcome, body in zip(outcomes, bodies, strict=True)
    ]


def explained(error: TaskExecutorError) -> TaskExecutorError:
    """Return an error with a suggestion for each absent endpoint that it names, for people: without a request."""
    return _explained(error, None, _Suggestions(), "")


class _Suggestions:
    """Suggestions of an answer: for MAX_SUGGESTED names, and for keys that may read endpoints."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        if name not in self._known:
            self._known[name] = _similar(name) if len(self._known) < MAX_SUGGESTED else ""
        return self._known[name]


def _answer(error: TaskExecutorError) -> Response:
    body = request.get_json(silent=True)
    return error_envelope.answer(_explained(error, body, _Suggestions(), _IN_LIST))


def _explained(error: TaskExecutorError, body: Any, near: _Suggestions, otherwise: str) -> TaskExecutorError:
    if isinstance(error, EndpointNotFoundError):
        return _of_endpoint(error, body, near, otherwise)
    if isinstance(error, _WITH_FAULTS):
        _explain_faults(error, near)
    return error


def _of_endpoint(error: EndpointNotFoundError, body: Any, near: _Suggestions, otherwise: str) -> EndpointNotFoundError:
    if g.api_key.allows(Scope.READ):
        remedy = near.of(error.name) or otherwise
    else:
        remedy = " Give the name of a registered endpoint."
    found = EndpointNotFoundError(f"{error.message}{remedy}", error.name)
    given = body if isinstance(body, Mapping) else {}
    found.details = [
        {"pointer": f"/{field}", "message": found.message} for field in _FIELDS if given.get(field) == error.name
    ]
    return found


def _explain_faults(error: TaskExecutorError, near: _Suggestions) -> None:
    for each in error.details:
        if (found := _MISSING.match(each["message"])) and (suggestion := near.of(found[1])):
            message = f"{found[0]}{suggestion}"
            error.message = error.message.replace(each["message"], message, 1)
            each["message"] = message


def _similar(name: str) -> str:
    """Return the suggestion of a name, for keys that may read endpoints."""
    if not g.api_key.allows(Scope.READ):
        return ""
    names = list[str]()
    with suppress(UnavailableError):
        names = versions.similar_names(services().database, name)
    return did_you_mean(name, names)
