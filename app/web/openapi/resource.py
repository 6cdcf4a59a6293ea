"""Resource: typed wrapper of flask-smorest's Blueprint; one decorator registers and documents an operation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from flask_smorest import Blueprint
from marshmallow import Schema

from app.kernel.access.api_keys import Scope
from app.kernel.errors import (
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
    UnsupportedMediaTypeError,
)
from app.web.http import conditions
from app.web.http.body import PARSER, invalid
from app.web.http.idempotent_requests import PARAMETER, REPLAYED_DOC, keyed
from app.web.openapi import error_responses, examples

View = TypeVar("View", bound=Callable[..., Any])
Layer = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class TextAnswer:
    """Description of an answer that is text: its content type and an example."""

    content_type: str
    example: str

    def as_arguments(self) -> dict[str, Any]:
        """Return the arguments that describe the answer to flask-smorest."""
        examples_ = {"text": {"value": self.example}}
        return {"schema": {"type": "string"}, "content_type": self.content_type, "examples": examples_}


@dataclass(frozen=True, slots=True)
class _Operation:
    """Traits of an operation; `key` describes its Idempotency-Key, which it handles itself unless `is_keyed`."""

    method: str
    takes_body: bool
    key: dict[str, Any] | None
    is_keyed: bool
    takes_condition: bool


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
        errors: Sequence[type[TaskExecutorError]] = (),
        own_key: dict[str, Any] | None = None,
        header: dict[str, Any] | None = None,
        text: TextAnswer | None = None,
    ) -> Callable[[View], View]:
        """Register a view, which is called with the parsed body or query and the parts of the path by name.

        The view returns an object for `returns`, alone or with a status; `also` are further statuses with the same
        body. With `text`, it may return a text response; without `returns` it always does. `errors` extend the errors
        common to all operations. A POST that writes takes an Idempotency-Key; a view that handles the key itself
        describes it in `own_key`. A view that reads another header describes it in `header`.
        """
        key = (own_key or PARAMETER) if method == "POST" and self.write_scope is not self.read_scope else None
        takes_condition = self.is_tagged and query is None and method != "POST"
        operation = _Operation(method, body is not None, key, key is not None and own_key is None, takes_condition)
        doc = self._doc(operation, query, header, errors)
        layers = self._answers(operation, returns, status, also, text) + self._arguments(body, query)

        def decorate(view: View) -> View:
            name = view.__name__
            wrapped: Any = view
            for layer in layers:
                wrapped = layer(wrapped)
            if operation.is_keyed:
                wrapped = keyed(wrapped, takes_body=operation.takes_body)
            wrapped = self.blueprint.doc(**doc, operationId=f"{self.name}_{name.strip('_')}".replace("-", "_"))(wrapped)
            self.blueprint.route(path, methods=[method], parameters=examples.of_path(path))(wrapped)
            return view

        return decorate

    def _answers(
        self,
        operation: _Operation,
        returns: type[Schema] | None,
        status: int,
        also: int | Sequence[int],
        text: TextAnswer | None,
    ) -> list[Layer]:
        has_tag = self.is_tagged and returns is not None and (operation.takes_condition or operation.method == "POST")
        headers = {**(conditions.ETAG if has_tag else {}), **(REPLAYED_DOC if operation.is_keyed else {})} or None
        shown: dict[str, Any] = {"schema": returns, "examples": examples.of_answer(returns)}
        if text is not None and returns is None:
            shown, text = text.as_arguments(), None
        replayed = REPLAYED_DOC if operation.key is not None else None
        layers = [self.blueprint.response(status, **shown, headers=headers)]
        others = [also] if isinstance(also, int) else also
        layers += [self.blueprint.alt_response(other, **shown, headers=replayed, success=True) for other in others]
        if text is not None:
            layers.append(self.blueprint.alt_response(status, **text.as_arguments(), success=True))
        return layers

    def _arguments(self, body: type[Schema] | None, query: type[Schema] | None) -> list[Layer]:
        # Instances, since webargs would instantiate a class for each request.
        layers = [self.blueprint.arguments(query(), location="query")] if query is not None else []
        if body is not None:
            layers.append(self.blueprint.arguments(body(), examples=examples.of_request(body)))
        return layers

    def _usual_errors(self, operation: _Operation) -> set[type[TaskExecutorError]]:
        errors: set[type[TaskExecutorError]] = {InvalidRequestError, InternalError, UnavailableError, TimedOutError}
        if not self.is_public:
            errors |= {UnauthorizedError, ForbiddenError, RateLimitedError}
        if operation.takes_body:
            errors |= {PayloadTooLargeError, UnsupportedMediaTypeError}
        if operation.is_keyed:
            errors.add(IdempotencyKeyReusedError)
        if operation.takes_condition:
            errors.add(PreconditionFailedError)
        return errors

    def _doc(
        self,
        operation: _Operation,
        query: type[Schema] | None,
        header: dict[str, Any] | None,
        errors: Sequence[type[TaskExecutorError]],
    ) -> dict[str, Any]:
        doc: dict[str, Any] = {"responses": {}}
        for status, classes in error_responses.by_status({*self._usual_errors(operation), *errors}).items():
            name = error_responses.name_of(classes)
            self.error_responses[name] = error_responses.response_of(classes)
            doc["responses"][str(status)] = name
        if not self.is_public:
            doc["security"] = [{"api_key": []}]
        condition = None
        if operation.takes_condition:
            condition = conditions.IF_NONE_MATCH if operation.method == "GET" else conditions.IF_MATCH
            doc["responses"] |= conditions.UNCHANGED if operation.method == "GET" else {}
        parameters = [each for each in (operation.key, condition, header) if each is not None]
        if parameters:
            # `parameters` replaces the description derived from the query's schema, so it repeats the schema.
            doc["parameters"] = ([{"in": "query", "schema": query()}] if query is not None else []) + parameters
        return doc


def same_name(body: dict[str, Any], name: str) -> None:
    """Raise InvalidRequestError if the body of a PUT has another name than its path."""
    if body.get("name", name) != name:
        raise invalid([{"pointer": "/name", "message": "Must be the name in the path; names cannot be changed."}])
