"""Resource: a typed wrapper of flask-smorest's Blueprint, with one decorator that also documents the operation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
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
from app.web.http.body import StrictParser, invalid
from app.web.http.idempotency_keys import PARAMETER, REPLAYED_DOC
from app.web.openapi import error_responses, examples

View = TypeVar("View", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Operation:
    """What an operation is registered as, and what it takes.

    `key` describes its Idempotency-Key, if it takes one; `is_keyed` says that it need not see to that by itself.
    `is_one` says that it is about one resource.
    """

    method: str
    path: str
    takes_body: bool
    key: dict[str, Any] | None
    is_keyed: bool
    is_one: bool


class Resource:
    """The operations under one path prefix; a write needs `write_scope`, a read needs `read_scope`.

    The states of the resources are tagged when `is_tagged`: then reads and changes take conditions. `is_single` says
    that there is only one.
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
        is_single: bool = False,
    ) -> None:
        self.blueprint: Any = Blueprint(name, __name__, description=description)
        self.blueprint.ARGUMENTS_PARSER = StrictParser()
        self.write_scope = write_scope
        self.read_scope = read_scope
        self.is_public = is_public
        self.is_tagged = is_tagged
        self.is_single = is_single
        self.blueprint.resource = self
        self.name = name
        self.error_responses: dict[str, Any] = {}
        # The views that take an Idempotency-Key, and whether they take a body.
        self.keyed: dict[str, bool] = {}

    @classmethod
    def of(cls, blueprint: object) -> "Resource | None":
        """Return the resource of a blueprint."""
        resource = getattr(blueprint, "resource", None)
        return resource if isinstance(resource, cls) else None

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
        or_stream: str | None = None,
        text: str | None = None,
        text_example: str = "",
    ) -> Callable[[View], View]:
        """Register a view, which is called with the parsed body or query and the parts of the path by name.

        It returns what `returns` dumps, or that and a status; `also` are other statuses with the same body. To `errors`
        is added what every operation may answer. A POST that does not only read takes an Idempotency-Key; a view that
        sees to it by itself describes its `own_key`, and one that reads another header that `header`; one
        that may also answer with a stream gives its type. One that answers
        with `text` of a type returns a response.
        """
        key = own_key or PARAMETER if method == "POST" and self.write_scope is not self.read_scope else None
        is_keyed, is_one = key is not None and own_key is None, self.is_single or path.endswith(">")
        operation = _Operation(method, path, body is not None, key, is_keyed=is_keyed, is_one=is_one)
        shown: dict[str, Any] = {"schema": returns, "examples": examples.of_answer(returns)}
        if text is not None:
            shown = {"schema": {"type": "string"}, "content_type": text, "examples": {"text": {"value": text_example}}}
        layers = [self.blueprint.response(status, **shown, headers=self._answer_headers(operation, returns))]
        replayed = REPLAYED_DOC if key is not None else None
        others = [also] if isinstance(also, int) else also
        layers += [self.blueprint.alt_response(other, **shown, headers=replayed, success=True) for other in others]
        doc = self._doc(operation, errors)
        if header is not None:
            doc.setdefault("parameters", []).append(header)
        if or_stream is not None:
            streamed = {"schema": {"type": "string"}, "content_type": or_stream, "success": True}
            layers.append(self.blueprint.alt_response(status, **streamed, examples={"stream": {"value": text_example}}))
        if query is not None and "parameters" in doc:
            # What is described by hand takes the place of what the query's schema says.
            doc["parameters"].insert(0, {"in": "query", "schema": query()})
        return self._register(operation, [*layers, *self._arguments(body, query)], doc)

    def _register(
        self, operation: _Operation, layers: Sequence[Callable[[Any], Any]], doc: dict[str, Any]
    ) -> Callable[[View], View]:
        def decorate(view: View) -> View:
            wrapped: Any = reduce(lambda inner, layer: layer(inner), layers, view)
            wrapped = self.blueprint.doc(**doc, operationId=self._operation_id(view))(wrapped)
            parameters = examples.of_path(operation.path)
            self.blueprint.route(operation.path, methods=[operation.method], parameters=parameters)(wrapped)
            if operation.is_keyed:
                self.keyed[view.__name__] = operation.takes_body
            return view

        return decorate

    def _arguments(self, body: type[Schema] | None, query: type[Schema] | None) -> list[Callable[[Any], Any]]:
        # Instances: webargs would instantiate a class for each request.
        layers = [self.blueprint.arguments(query(), location="query")] if query is not None else []
        if body is not None:
            layers.append(self.blueprint.arguments(body(), examples=examples.of_request(body)))
        return layers

    def _answer_headers(self, operation: _Operation, returns: type[Schema] | None) -> dict[str, Any] | None:
        has_tag = self.is_tagged and returns is not None and (operation.is_one or operation.method == "POST")
        return {**(conditions.ETAG if has_tag else {}), **(REPLAYED_DOC if operation.is_keyed else {})} or None

    def before_request(self, check: Callable[[], None]) -> Callable[[], None]:
        """Run a check before each of the views, after the key was verified."""
        self.blueprint.before_request(check)
        return check

    def _usual_errors(self, operation: _Operation) -> set[type[TaskExecutorError]]:
        errors: set[type[TaskExecutorError]] = {InvalidRequestError, InternalError, UnavailableError, TimedOutError}
        if not self.is_public:
            errors |= {UnauthorizedError, ForbiddenError, RateLimitedError}
        if operation.takes_body:
            errors |= {PayloadTooLargeError, UnsupportedMediaTypeError}
        if operation.is_keyed:
            errors.add(IdempotencyKeyReusedError)
        return errors

    def _doc(self, operation: _Operation, errors: Sequence[type[TaskExecutorError]]) -> dict[str, Any]:
        condition_of = operation.method if self.is_tagged and operation.is_one else None
        possible = {*self._usual_errors(operation), *errors}
        if condition_of is not None:
            possible.add(PreconditionFailedError)
        doc: dict[str, Any] = {"responses": {}}
        for status, classes in error_responses.by_status(possible).items():
            name = error_responses.name_of(classes)
            self.error_responses[name] = error_responses.response_of(classes)
            doc["responses"][str(status)] = name
        if not self.is_public:
            doc["security"] = [{"api_key": []}]
        if operation.key is not None:
            doc["parameters"] = [operation.key]
        if condition_of is not None:
            _add_condition(doc, condition_of)
        return doc

    def _operation_id(self, view: Callable[..., Any]) -> str:
        return f"{self.name}_{view.__name__.strip('_')}".replace("-", "_")


def _add_condition(doc: dict[str, Any], method: str) -> None:
    doc.setdefault("parameters", []).append(conditions.IF_NONE_MATCH if method == "GET" else conditions.IF_MATCH)
    if method == "GET":
        doc["responses"] |= conditions.UNCHANGED


def same_name(body: dict[str, Any], name: str) -> None:
    """Raise InvalidRequestError when the body of a PUT has another name than its path."""
    if body.get("name", name) != name:
        raise invalid([{"pointer": "/name", "message": "Must be the name in the path; names cannot be changed."}])
