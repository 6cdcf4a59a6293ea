"""Resource: a typed wrapper of flask-smorest's Blueprint, with one decorator that also documents the operation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from flask_smorest import Blueprint
from marshmallow import Schema

from app.access.api_keys import Scope
from app.api.http import conditions
from app.api.http.body import StrictParser, invalid
from app.api.openapi import error_responses, examples
from app.errors import (
    ForbiddenError,
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

View = TypeVar("View", bound=Callable[..., Any])


class Resource:
    """The operations under one path prefix; a write needs `write_scope`, a read needs `read_scope`.

    The states of the resources are tagged when `is_tagged`: then reads and changes take conditions.
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
        self.blueprint.ARGUMENTS_PARSER = StrictParser()
        self.write_scope = write_scope
        self.read_scope = read_scope
        self.is_public = is_public
        self.is_tagged = is_tagged
        self.blueprint.resource = self
        self.name = name
        self.error_responses: dict[str, Any] = {}

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
        also: int | None = None,
        also_headers: Mapping[str, Any] | None = None,
        body: type[Schema] | None = None,
        query: type[Schema] | None = None,
        headers: Sequence[dict[str, Any]] = (),
        errors: Sequence[type[TaskExecutorError]] = (),
    ) -> Callable[[View], View]:
        """Register a view, which is called with the parsed body or query and the parts of the path by name.

        It returns what `returns` dumps, or that and a status. `also` is a second status with the same body. For
        the OpenAPI document only are `also_headers` of that answer, `headers` of the request and `errors`, to which is
        added what every operation may answer.
        """

        is_one = path.endswith(">")
        has_tag = self.is_tagged and returns is not None and (is_one or method == "POST")
        shown = {"schema": returns, "examples": examples.of_answer(returns)}
        doc = self._doc(headers, {*self._usual_errors(body), *errors}, condition_of=method if is_one else None)

        def decorate(view: View) -> View:
            wrapped: Any = self.blueprint.response(status, **shown, headers=conditions.ETAG if has_tag else None)(view)
            if also is not None:
                wrapped = self.blueprint.alt_response(also, **shown, headers=also_headers, success=True)(wrapped)
            # Instances: webargs would instantiate a class for each request.
            if query is not None:
                wrapped = self.blueprint.arguments(query(), location="query")(wrapped)
            if body is not None:
                wrapped = self.blueprint.arguments(body(), examples=examples.of_request(body))(wrapped)
            wrapped = self.blueprint.doc(**doc, operationId=self._operation_id(view))(wrapped)
            self.blueprint.route(path, methods=[method], parameters=examples.of_path(path))(wrapped)
            return view

        return decorate

    def before_request(self, check: Callable[[], None]) -> Callable[[], None]:
        """Run a check before each of the views, after the key was verified."""
        self.blueprint.before_request(check)
        return check

    def _usual_errors(self, body: type[Schema] | None) -> set[type[TaskExecutorError]]:
        errors: set[type[TaskExecutorError]] = {InvalidRequestError, InternalError, UnavailableError, TimedOutError}
        if not self.is_public:
            errors |= {UnauthorizedError, ForbiddenError, RateLimitedError}
        if body is not None:
            errors |= {PayloadTooLargeError, UnsupportedMediaTypeError}
        return errors

    def _doc(
        self, headers: Sequence[dict[str, Any]], errors: set[type[TaskExecutorError]], *, condition_of: str | None
    ) -> dict[str, Any]:
        """Describe an operation; `condition_of` is the method of one that takes If-Match or If-None-Match."""
        method = condition_of if self.is_tagged else None
        if method is not None:
            errors.add(PreconditionFailedError)
        doc: dict[str, Any] = {"responses": {}}
        for status, classes in error_responses.by_status(errors).items():
            name = error_responses.name_of(classes)
            self.error_responses[name] = error_responses.response_of(classes)
            doc["responses"][str(status)] = name
        if not self.is_public:
            doc["security"] = [{"api_key": []}]
        if headers:
            doc["parameters"] = list(headers)
        if method is not None:
            _add_condition(doc, method)
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
