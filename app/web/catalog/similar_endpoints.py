"""404 of a misspelt endpoint: it names the field of the request, and to keys that may read endpoints a similar name."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
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


def register(app: Flask) -> None:
    """Answer with a suggestion if an endpoint does not exist: the named endpoint, or an endpoint that a field names."""
    app.register_error_handler(EndpointNotFoundError, _answer)
    for refusal in (InvalidCallbackError, InvalidNotificationRuleError, InvalidWorkflowError):
        app.register_error_handler(refusal, _answer_fields)


def completed(outcomes: Sequence[T], bodies: Sequence[Any]) -> list[T | EndpointNotFoundError]:
    """Return the outcomes of bodies, where each EndpointNotFoundError has a field and for some names a suggestion."""
    names = dict.fromkeys(each.name for each in outcomes if isinstance(each, EndpointNotFoundError))
    remedies = {name: _remedy(name) for name in islice(names, MAX_SUGGESTED)}
    return [
        _completed(outcome, body, remedies.get(outcome.name, ""))
        if isinstance(outcome, EndpointNotFoundError)
        else outcome
        for outcome, body in zip(outcomes, bodies, strict=True)
    ]


def _answer(error: EndpointNotFoundError) -> Response:
    return error_envelope.answer(_completed(error, request.get_json(silent=True), _remedy(error.name)))


def _answer_fields(error: TaskExecutorError) -> Response:
    names = dict.fromkeys(found[1] for each in error.details if (found := _MISSING.match(each["message"])))
    near = {name: _similar(name) for name in islice(names, MAX_SUGGESTED)}
    for each in error.details:
        if (found := _MISSING.match(each["message"])) and near.get(found[1]):
            message = f"{found[0]}{near[found[1]]}"
            error.message = error.message.replace(each["message"], message, 1)
            each["message"] = message
    return error_envelope.answer(error)


def _completed(error: EndpointNotFoundError, body: Any, remedy: str) -> EndpointNotFoundError:
    found = EndpointNotFoundError(f"{error.message}{remedy}", error.name)
    given = body if isinstance(body, Mapping) else {}
    found.details = [
        {"pointer": f"/{field}", "message": found.message} for field in _FIELDS if given.get(field) == error.name
    ]
    return found


def _remedy(name: str) -> str:
    if not g.api_key.allows(Scope.READ):
        return " Give the name of a registered endpoint."
    return _similar(name) or " GET /endpoints lists the endpoints."


def _similar(name: str) -> str:
    """Return the suggestion of a name, for keys that may read endpoints."""
    if not g.api_key.allows(Scope.READ):
        return ""
    names = list[str]()
    with suppress(UnavailableError):
        names = versions.similar_names(services().database, name)
    return did_you_mean(name, names)
