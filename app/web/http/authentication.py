"""Authentication and scopes: every path needs an API key unless its resource is public."""

from collections.abc import Collection, Sequence
from functools import partial

from flask import Flask, g

from app.kernel.access.api_keys import CREATE_PREFIX, Scope
from app.kernel.access.key_ring import Key
from app.kernel.errors import ForbiddenError, RateLimitedError, UnauthorizedError
from app.kernel.function_types import never
from app.web.http.rate_limits import refuse_excess
from app.web.http.request_log import current_request_id, note_ids
from app.web.http.unproxied import current_request, current_values
from app.web.openapi import document, swagger_ui
from app.web.openapi.operation import Operation
from app.web.openapi.resource import Resource
from app.web.services import services


def register(app: Flask, resources: Sequence[Resource], *, own_access: Collection[str] = ()) -> None:
    """Check the API key of each request before its view runs; the blueprints in `own_access` check for themselves."""
    scopes: dict[tuple[str, bool], Scope | None] = {(swagger_ui.NAME, True): None}  # by blueprint, true for reads
    scopes |= {(name, is_read): None for name in own_access for is_read in (True, False)}
    operations = {f"{each.name}.{view}": found for each in resources for view, (found, _) in each.operations.items()}
    for each in resources:
        scopes[each.name, True] = None if each.is_public else each.read_scope
        scopes[each.name, False] = None if each.is_public else each.write_scope

    @app.before_request
    def authorize() -> None:
        req = current_request()
        # Without a matching route the answer is 404 or 405 even without a key: paths are not secret.
        if req.url_rule is None or req.method == "OPTIONS" or req.path == document.PATH:
            return
        scope = scopes.get((req.blueprint or "", req.method in {"GET", "HEAD"}), Scope.ADMIN)
        if scope is None:
            return
        presented = bearer()
        try:
            _check(presented, scope, operations.get(req.endpoint or ""))
        except (UnauthorizedError, ForbiddenError, RateLimitedError) as error:
            services().refusals.note(error, presented, req.remote_addr or "-", current_request_id())
            raise


def verify_again() -> None:
    """Raise UnauthorizedError if the key of a resumed request is no longer valid; does not count the request."""
    if "api_key" in g:
        g.api_key = services().keys.verify(bearer())


def bearer() -> str:
    """Return the API key in the current request's header; empty without one."""
    kind, _, key = current_request().headers.get("Authorization", "").strip().partition(" ")
    return key.strip() if kind.lower() == "bearer" else ""


def require(scope: Scope) -> None:
    """Raise ForbiddenError if the key of the current request lacks a scope."""
    if not g.api_key.allows(scope):
        raise _lacks(scope)


def require_creation(endpoint: str) -> None:
    """Raise ForbiddenError if the key of the current request may create no jobs of an endpoint."""
    key: Key = g.api_key
    if key.may_create(endpoint):
        return
    patterns = key.endpoint_patterns
    if not patterns:
        raise _lacks(Scope.JOBS_WRITE)
    raise ForbiddenError(
        f"This API key creates jobs of endpoints that match {' or '.join(patterns)} only, not of {endpoint!r}. Use a "
        f"key with the scope {f'{CREATE_PREFIX}{endpoint}'!r} or {Scope.JOBS_WRITE.value!r}."
    )


def verified(presented: str) -> Key:
    """Return a valid key; counts a bad key. Raises UnauthorizedError, RateLimitedError after too many bad keys."""
    bad_key_limit, address = services().bad_key_limit, current_request().remote_addr or ""
    try:
        # A valid key is accepted from any address, since clients behind a proxy share its address.
        is_flooded = never if bad_key_limit is None else partial(bad_key_limit.is_used_up, address)
        return services().keys.verify(presented, is_flooded)
    except UnauthorizedError:
        if bad_key_limit is not None:
            refuse_excess(bad_key_limit.count(address))
        raise


def _lacks(scope: Scope) -> ForbiddenError:
    return ForbiddenError(f"This API key lacks the scope {scope.value!r}. Use a key that has it.")


def _check(presented: str, scope: Scope, operation: Operation | None) -> None:
    if not presented:
        raise UnauthorizedError(
            "An API key is required: send `Authorization: Bearer te_...`. `flask --app app api-keys create` makes keys."
        )
    current_values().api_key = key = verified(presented)
    note_ids(key_id=key.key_id)
    key_limit = services().key_limit
    if key_limit is not None:
        g.allowance = key_limit.count(key.key_id)
        refuse_excess(g.allowance)
    if not (key.allows(scope) or (operation is not None and operation.admits(key))):
        raise _lacks(scope)
