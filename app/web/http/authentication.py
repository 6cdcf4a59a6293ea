"""Authentication and scopes: every path needs a key, except the few that declare otherwise."""

from flask import Flask, Response, current_app, g, request

from app.kernel.access.api_keys import Scope
from app.kernel.access.key_ring import Key
from app.kernel.errors import ForbiddenError, RateLimitedError, UnauthorizedError
from app.web.http.rate_limits import too_many
from app.web.http.request_ids import current_request_id, note_ids
from app.web.openapi import document, swagger_ui
from app.web.openapi.resource import Resource
from app.web.services import services

_SAFE_METHODS = frozenset({"GET", "HEAD"})


def register(app: Flask) -> None:
    """Check the key of each request before its view runs."""
    app.before_request(authorize)
    app.after_request(_show_allowance)


def authorize() -> None:
    """Raise UnauthorizedError or ForbiddenError unless the request's key permits it."""
    # Without a matching route the answer is 404 or 405 in any case, and the API's paths are not secret.
    if request.url_rule is None or request.method == "OPTIONS":
        return
    scope = _needed()
    if scope is None:
        return
    try:
        _check(scope)
    except (UnauthorizedError, ForbiddenError, RateLimitedError) as error:
        services().refusals.note(error, _credentials()[1], request.remote_addr or "-", current_request_id())
        raise


def verify_again() -> None:
    """Raise UnauthorizedError where the key of a request that has waited is not valid any more; counts nothing."""
    if "api_key" in g:
        g.api_key = services().keys.verify(_bearer())


def _check(scope: Scope) -> None:
    g.api_key = _verified(_bearer())
    note_ids(key_id=g.api_key.key_id)
    _count(g.api_key)
    if not g.api_key.allows(scope):
        raise ForbiddenError(f"This API key lacks the scope {scope.value!r}.")


def _verified(presented: str) -> Key:
    """Verify a key. A good one is accepted wherever it comes from: behind a proxy all clients share its address."""
    keys, limit, address = services().keys, services().bad_key_limit, request.remote_addr or ""
    if limit is None:
        return keys.verify(presented)
    try:
        return keys.verify(presented, is_flooded=lambda: limit.is_used_up(address))
    except UnauthorizedError:
        allowance = limit.count(address)
        if allowance is not None and allowance.remaining < 0:
            raise too_many(allowance) from None
        raise


def _count(key: Key) -> None:
    limit = services().key_limit
    if limit is None:
        return
    g.allowance = limit.count(key.key_id)
    if g.allowance is not None and g.allowance.remaining < 0:
        raise too_many(g.allowance)


def _show_allowance(response: Response) -> Response:
    allowance = g.get("allowance")
    if allowance is not None:
        response.headers.update(allowance.headers())
    return response


def _needed() -> Scope | None:
    resource = Resource.of(current_app.blueprints.get(request.blueprint or ""))
    if resource is None:
        # The OpenAPI document and the page that shows it are the only routes outside a resource.
        return None if request.path == document.PATH or request.blueprint == swagger_ui.NAME else Scope.ADMIN
    if resource.is_public:
        return None
    return resource.read_scope if request.method in _SAFE_METHODS else resource.write_scope


def _bearer() -> str:
    kind, key = _credentials()
    if kind != "bearer" or not key:
        raise UnauthorizedError("An API key is needed: send `Authorization: Bearer te_...`.")
    return key


def _credentials() -> tuple[str, str]:
    kind, _, key = request.headers.get("Authorization", "").strip().partition(" ")
    return kind.lower(), key.strip()
