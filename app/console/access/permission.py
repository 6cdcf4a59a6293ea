"""Permissions of pages and actions: the scopes of the API's operations for which they stand."""

from collections.abc import Sequence

from flask import Flask, current_app, g

from app.kernel.access.api_keys import Scope
from app.kernel.access.key_ring import Key
from app.kernel.errors import ForbiddenError
from app.web.openapi.resource import Resource

EXTENSION = "task_executor_console"

Scopes = tuple[Scope, ...]
"""A key needs one of these; none for a public operation."""


class UnknownOperationError(Exception):
    """A page or an action names an operation that the API does not have."""


class Permissions:
    """Scopes by operation, such as `POST /executions/<execution_id>/retry`, and the operation of each console route."""

    def __init__(self, app: Flask, resources: Sequence[Resource]) -> None:
        self._scopes: dict[str, Scopes] = {}
        self._operations: dict[str, str | None] = {}  # by route
        by_name = {each.name: each for each in resources}
        for rule in app.url_map.iter_rules():
            name, _, view = rule.endpoint.partition(".")
            if name in by_name:
                for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
                    self._scopes[f"{method} {rule.rule}"] = _scopes_of(by_name[name], view, method)
        app.extensions[EXTENSION] = self

    def scopes(self, operation: str) -> Scopes:
        """Return the scopes of an operation; raises UnknownOperationError if the API does not have it."""
        if operation not in self._scopes:
            raise UnknownOperationError(f"{operation}: name an operation as its route is declared")
        return self._scopes[operation]

    def declare(self, route: str, operation: str | None) -> None:
        """Bind a route of the console to an operation; None: any session may use it."""
        if operation is not None:
            self.scopes(operation)
        self._operations[route] = operation

    def has(self, route: str) -> bool:
        """Return whether a route of the console is declared, such as the region `processes?region=workers`."""
        return route in self._operations

    def check(self, route: str) -> None:
        """Raise ForbiddenError if the current key lacks the scope of a route of the console."""
        check(self._operations[route])


def may(operation: str) -> bool:
    """Return whether the current key may use an operation."""
    permissions: Permissions = current_app.extensions[EXTENSION]
    scopes = permissions.scopes(operation)
    return not scopes or any(current_key().allows(scope) for scope in scopes)


def check(operation: str | None) -> None:
    """Raise ForbiddenError if the current key lacks the scope of an operation."""
    if operation is not None and not may(operation):
        permissions: Permissions = current_app.extensions[EXTENSION]
        wanted = " or ".join(permissions.scopes(operation))
        raise ForbiddenError(
            f"Your key {current_key().name!r} lacks the scope {wanted}. Sign in with a key that has it."
        )


def current_key() -> Key:
    """Return the API key of the current session."""
    key: Key = g.api_key
    return key


def _scopes_of(resource: Resource, view: str, method: str) -> Scopes:
    if resource.is_public:
        return ()
    own = resource.read_scope if method == "GET" else resource.write_scope
    more = resource.operations[view][0].or_scope
    return (own,) if more is None else (own, more)
