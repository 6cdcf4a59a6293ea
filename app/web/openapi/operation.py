"""Operation: one method of one path, its description in the OpenAPI document, and the serving of its requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marshmallow import Schema

from app.kernel.errors import (
    ForbiddenError,
    IdempotencyKeyReusedError,
    InternalError,
    InvalidRequestError,
    PayloadTooLargeError,
    PreconditionFailedError,
    RateLimitedError,
    TimedOutError,
    UnauthorizedError,
    UnavailableError,
    UnsupportedMediaTypeError,
)
from app.kernel.function_types import AnyFunction
from app.web.http import conditions
from app.web.http.idempotent_requests import REPLAYED_DOC, keyed
from app.web.http.serving import served
from app.web.openapi import error_responses, examples
from app.web.openapi.error_responses import Errors

Described = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Requests and answers of one operation; see `Resource.route`.

    `key` describes the Idempotency-Key if the operation takes one; `is_keyed` unless its view handles the key itself.
    With `is_tagged`, its answers have entity tags, or its requests take conditions.
    """

    method: str
    path: str
    returns: type[Schema] | None
    status: int
    also: Sequence[int]
    body: type[Schema] | None
    query: type[Schema] | None
    errors: Errors
    key: Described | None
    is_keyed: bool
    header: Described | None
    texts: Sequence[dict[str, Any]]
    is_public: bool
    is_tagged: bool

    @property
    def _takes_condition(self) -> bool:
        return self.is_tagged and self.query is None and self.method != "POST"

    def served(self, view: AnyFunction) -> Any:
        """Wrap a view, which then answers requests."""
        serve = served(view, body=self.body, query=self.query, returns=self.returns, status=self.status)
        return keyed(serve, takes_body=self.body is not None) if self.is_keyed else serve

    def layers(self, blueprint: Any) -> list[AnyFunction]:
        """Return flask-smorest's decorators for its answers and arguments, from the innermost on."""
        texts, body, query = [*self.texts], self.body, self.query
        has_tag = self.is_tagged and self.returns is not None and (self._takes_condition or self.method == "POST")
        headers = {**(conditions.ETAG if has_tag else {}), **(REPLAYED_DOC if self.is_keyed else {})} or None
        replayed = REPLAYED_DOC if self.key is not None else None
        shown: dict[str, Any] = {"schema": self.returns, "examples": examples.of(self.returns)}
        if texts and self.returns is None:
            shown = texts.pop(0)
        return [
            blueprint.response(self.status, **shown, headers=headers),
            *(blueprint.alt_response(other, **shown, headers=replayed, success=True) for other in self.also),
            *(blueprint.alt_response(self.status, **each, success=True) for each in texts),
            *([blueprint.arguments(query(), location="query")] if query is not None else []),
            *([blueprint.arguments(body(), examples=examples.of(body))] if body is not None else []),
        ]

    def doc(self) -> dict[str, Any]:
        """Describe its errors, security, and parameters in headers."""
        names = error_responses.names_of(self.possible_errors())
        doc: dict[str, Any] = {"responses": {str(status): name for status, (name, _) in names.items()}}
        if not self.is_public:
            doc["security"] = [{"api_key": []}]
        condition = conditions.IF_NONE_MATCH if self.method == "GET" else conditions.IF_MATCH
        headers = (self.key, condition if self._takes_condition else None, self.header)
        parameters = [each for each in headers if each is not None]
        if parameters:
            # `parameters` replaces the description derived from the query's schema, so it repeats the schema.
            doc["parameters"] = [
                *([{"in": "query", "schema": self.query()}] if self.query is not None else []),
                *parameters,
            ]
        doc["responses"] |= conditions.UNCHANGED if self._takes_condition and self.method == "GET" else {}
        return doc

    def possible_errors(self) -> Errors:
        """Return its own errors, and those that all such operations have in common."""
        groups: Sequence[tuple[bool, Errors]] = (
            (True, [*self.errors, InvalidRequestError, InternalError, UnavailableError, TimedOutError]),
            (not self.is_public, [UnauthorizedError, ForbiddenError, RateLimitedError]),
            (self.body is not None, [PayloadTooLargeError, UnsupportedMediaTypeError]),
            (self.is_keyed, [IdempotencyKeyReusedError]),
            (self._takes_condition, [PreconditionFailedError]),
        )
        return [error for is_possible, group in groups if is_possible for error in group]
