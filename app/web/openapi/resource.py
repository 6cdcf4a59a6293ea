"""Resource: typed wrapper of flask-smorest's Blueprint; one decorator registers and documents an operation."""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

from flask_smorest import Blueprint
from marshmallow import Schema

from app.kernel.access.api_keys import Scope
from app.kernel.errors import (
    Detail,
    ForbiddenError,
    IdempotencyKeyReusedError,
    InternalError,
    InvalidRequestError,
    PayloadTooLargeError,
    PreconditionFailedError,
    RateLimitedError,
    TaskExecutorError,
    TimedOutError,
    UnauthorizedError,
    UnavailableError,
    UnprocessableError,
    UnsupportedMediaTypeError,
)
from app.kernel.function_types import AnyFunction
from app.web.http import conditions
from app.web.http.body import PARSER, invalid
from app.web.http.error_envelope import envelope
from app.web.http.idempotent_requests import PARAMETER, REPLAYED_DOC, keyed
from app.web.http.serving import served
from app.web.openapi import examples

View = TypeVar("View", bound=AnyFunction)
Errors = Sequence[type[TaskExecutorError]]

_EXAMPLE_DETAIL: Detail = {"pointer": "/name", "message": "Required."}
_RETRY_AFTER: dict[str, Any] = {"description": "seconds to wait", "schema": {"type": "integer", "minimum": 1}}
_NUMBER = {"description": "present while a limit is set", "schema": {"type": "integer", "minimum": 0}}
_AUTHENTICATE = {"description": "how to authenticate", "schema": {"type": "string"}}


def text_answer(content_type: str, example: str) -> dict[str, Any]:
    """Describe an answer that is text."""
    return {"schema": {"type": "string"}, "content_type": content_type, "examples": {"text": {"value": example}}}


class Resource:
    """Operations under one path prefix; writes need `write_scope`, reads `read_scope`.

    With `is_tagged`, states of the resource have entity tags, and reads and changes of one take conditions.
    """

    def __init__(
        self,
        name: str,
        description: str,
        *,
        write_scope: Scope = Scope.ADMIN,
        read_scope: Scope = Scope.READ,
        is_public: bool = False,
        is_tagged: bool = False,
    ) -> None:
        self.blueprint: Any = Blueprint(name, __name__, description=description)
        self.blueprint.ARGUMENTS_PARSER = PARSER
        self.write_scope = write_scope
        self.read_scope = read_scope
        self.is_public = is_public
        self.is_tagged = is_tagged
        self.name = name
        self.error_responses: dict[str, Any] = {}
        self.more_scopes: dict[str, Scope] = {}  # by view

    def route(
        self,
        method: str,
        path: str,
        *,
        returns: type[Schema] | None,
        status: int = 200,
        also: int | Sequence[int] = (),
        body: type[Schema] | None = None,
        query: type[Schema] | None = None,
        errors: Errors = (),
        own_key: dict[str, Any] | None = None,
        header: dict[str, Any] | None = None,
        text: dict[str, Any] | Sequence[dict[str, Any]] = (),
        or_scope: Scope | None = None,
    ) -> Callable[[View], View]:
        """Register a view, which is called with the parsed body or query and the parts of the path by name.

        The view returns an object for `returns`, alone or with a status; `also` are further statuses with the same
        body. With `text`, descriptions of texts, it may return a text response; without `returns` it always does.
        `errors` extend the errors common to all operations. A POST that writes takes an Idempotency-Key; a view that
        handles the key itself describes it in `own_key`. A view that reads another header describes it in `header`. A
        key with `or_scope` instead of the resource's scope also reaches the view, which checks the rest.
        """
        key = (own_key or PARAMETER) if method == "POST" and self.write_scope is not self.read_scope else None
        is_keyed = key is not None and own_key is None
        takes_condition = self.is_tagged and query is None and method != "POST"
        condition = conditions.IF_NONE_MATCH if method == "GET" else conditions.IF_MATCH
        parameters = [each for each in (key, condition if takes_condition else None, header) if each is not None]
        possible = self._errors(errors, takes_body=body is not None, is_keyed=is_keyed, takes_condition=takes_condition)
        doc = self._doc(possible, query, parameters)
        doc["responses"] |= conditions.UNCHANGED if takes_condition and method == "GET" else {}
        has_tag = self.is_tagged and returns is not None and (takes_condition or method == "POST")
        headers = {**(conditions.ETAG if has_tag else {}), **(REPLAYED_DOC if is_keyed else {})} or None
        texts = [text] if isinstance(text, dict) else [*text]
        shown: dict[str, Any] = (
            texts.pop(0) if texts and returns is None else {"schema": returns, "examples": examples.of(returns)}
        )
        blueprint, replayed = self.blueprint, REPLAYED_DOC if key is not None else None
        # Layers of the description, from the innermost on; requests pass only `served`.
        layers = [blueprint.response(status, **shown, headers=headers)]
        others = [also] if isinstance(also, int) else also
        layers += [blueprint.alt_response(other, **shown, headers=replayed, success=True) for other in others]
        layers += [blueprint.alt_response(status, **each, success=True) for each in texts]
        layers += [blueprint.arguments(query(), location="query")] if query is not None else []
        layers += [blueprint.arguments(body(), examples=examples.of(body))] if body is not None else []

        def decorate(view: View) -> View:
            name, described = view.__name__, view
            if or_scope is not None:
                self.more_scopes[name] = or_scope
            for layer in layers:
                described = layer(described)
            described = blueprint.doc(**doc, operationId=f"{self.name}_{name.strip('_')}".replace("-", "_"))(described)
            serve: Any = served(view, body=body, query=query, returns=returns, status=status)
            serve = keyed(serve, takes_body=body is not None) if is_keyed else serve
            serve._apidoc = described._apidoc  # noqa: SLF001 - flask-smorest finds the description there
            blueprint.route(path, methods=[method], parameters=examples.of_path(path))(serve)
            return view

        return decorate

    def _errors(self, errors: Errors, *, takes_body: bool, is_keyed: bool, takes_condition: bool) -> Errors:
        groups: Sequence[tuple[bool, Errors]] = (
            (True, [*errors, InvalidRequestError, InternalError, UnavailableError, TimedOutError]),
            (not self.is_public, [UnauthorizedError, ForbiddenError, RateLimitedError]),
            (takes_body, [PayloadTooLargeError, UnsupportedMediaTypeError]),
            (is_keyed, [IdempotencyKeyReusedError]),
            (takes_condition, [PreconditionFailedError]),
        )
        return [error for is_possible, group in groups if is_possible for error in group]

    def _doc(
        self, errors: Errors, query: type[Schema] | None, parameters: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        doc: dict[str, Any] = {"responses": {}}
        distinct = {(error.status, error.code): error for error in sorted(errors, key=attrgetter("__name__"))}
        for status, group in groupby([distinct[key] for key in sorted(distinct)], key=attrgetter("status")):
            classes = list(group)
            name = "-".join([str(status), *(error.code for error in classes)])
            self.error_responses[name] = _response_of(status, classes)
            doc["responses"][str(status)] = name
        if not self.is_public:
            doc["security"] = [{"api_key": []}]
        if parameters:
            # `parameters` replaces the description derived from the query's schema, so it repeats the schema.
            doc["parameters"] = [*([{"in": "query", "schema": query()}] if query is not None else []), *parameters]
        return doc


def same_name(body: dict[str, Any], name: str) -> None:
    """Raise InvalidRequestError if the body of a PUT has another name than its path."""
    if body.get("name", name) != name:
        raise invalid([{"pointer": "/name", "message": "Must be the name in the path; names cannot be changed."}])


def _response_of(status: int, errors: Errors) -> dict[str, Any]:
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
