"""Operation: one method of one path, the parts of a description for the document, and the serving of its requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marshmallow import Schema

from app.kernel.access.api_keys import Scope
from app.kernel.access.key_ring import Key
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
from app.web.http.idempotent_requests import keyed
from app.web.http.serving import served
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
    or_scope: Scope | None
    creates_jobs: bool

    @property
    def takes_condition(self) -> bool:
        """Return whether a request may name an expected state."""
        return self.is_tagged and self.query is None and self.method != "POST"

    def admits(self, key: Key) -> bool:
        """Return whether a key without the scope of the resource reaches the view, which checks the rest."""
        has_scope = self.or_scope is not None and key.allows(self.or_scope)
        return has_scope or (self.creates_jobs and bool(key.endpoint_patterns))

    def served(self, view: AnyFunction) -> Any:
        serve = served(view, body=self.body, query=self.query, returns=self.returns, status=self.status)
        return keyed(serve, takes_body=self.body is not None) if self.is_keyed else serve

    def possible_errors(self) -> Errors:
        """Return its own errors, and those that all such operations have in common."""
        groups: Sequence[tuple[bool, Errors]] = (
            (True, [*self.errors, InvalidRequestError, InternalError, UnavailableError, TimedOutError]),
            (not self.is_public, [UnauthorizedError, ForbiddenError, RateLimitedError]),
            (self.body is not None, [PayloadTooLargeError, UnsupportedMediaTypeError]),
            (self.is_keyed, [IdempotencyKeyReusedError]),
            (self.takes_condition, [PreconditionFailedError]),
        )
        return [error for is_possible, group in groups if is_possible for error in group]
