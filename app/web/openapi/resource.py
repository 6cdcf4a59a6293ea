"""Resource: a blueprint whose decorator registers an operation and keeps the description."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeVar

from flask import Blueprint
from marshmallow import Schema

from app.kernel.access.api_keys import Scope
from app.kernel.function_types import AnyFunction
from app.web.http.body import invalid
from app.web.http.idempotent_requests import PARAMETER
from app.web.openapi.error_responses import Errors
from app.web.openapi.operation import Operation

View = TypeVar("View", bound=AnyFunction)


def text_answer(content_type: str, example: str) -> dict[str, Any]:
    return {"schema": {"type": "string"}, "content_type": content_type, "examples": {"text": {"value": example}}}


@dataclass(eq=False)
class Resource:
    """Operations under one path prefix; writes need `write_scope`, reads `read_scope`.

    With `is_tagged`, states of the resource have entity tags, and reads and changes of one take conditions.
    """

    name: str
    description: str
    _: KW_ONLY
    write_scope: Scope = Scope.ADMIN
    read_scope: Scope = Scope.READ
    is_public: bool = False
    is_tagged: bool = False
    # With views, by the name of the view.
    operations: dict[str, tuple[Operation, AnyFunction]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.blueprint = Blueprint(self.name, __name__)

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
        creates_jobs: bool = False,
    ) -> Callable[[View], View]:
        """Register a view, which is called with the parsed body or query and the parts of the path by name.

        The view returns an object for `returns`, alone or with a status; `also` are further statuses with the same
        body. With `text`, descriptions of texts, it may return a text response; without `returns` it always does.
        `errors` extend the errors common to all operations. A POST that writes takes an Idempotency-Key; a view that
        handles the key itself describes it in `own_key`. A view that reads another header describes it in `header`. A
        key with `or_scope` instead of the resource's scope also reaches the view, which checks the rest. So does, with
        `creates_jobs`, a key that creates jobs of some endpoints only: the view calls `require_creation` for each.
        """
        key = (own_key or PARAMETER) if method == "POST" and self.write_scope is not self.read_scope else None
        operation = Operation(
            method=method,
            path=path,
            returns=returns,
            status=status,
            also=[also] if isinstance(also, int) else also,
            body=body,
            query=query,
            errors=errors,
            key=key,
            is_keyed=key is not None and own_key is None,
            header=header,
            texts=[text] if isinstance(text, dict) else text,
            is_public=self.is_public,
            is_tagged=self.is_tagged,
            or_scope=or_scope,
            creates_jobs=creates_jobs,
        )

        def decorate(view: View) -> View:
            name = view.__name__
            self.operations[name] = operation, view
            self.blueprint.add_url_rule(path, name, operation.served(view), methods=[method])
            return view

        return decorate


def same_name(body: dict[str, Any], name: str) -> None:
    """Raise InvalidRequestError if the body of a PUT has another name than its path."""
    if body.get("name", name) != name:
        raise invalid([{"pointer": "/name", "message": "Must be the name in the path; names cannot be changed."}])
