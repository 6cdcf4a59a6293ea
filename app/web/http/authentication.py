"""Authentication and scopes: every path needs an API key unless its resource is public."""

from collections.abc import Sequence
from functools import partial

from flask import Flask, g, request

from app.kernel.access.api_keys import Scope
from app.kernel.access.key_ring import Key
from app.kernel.errors import ForbiddenError, RateLimitedError, UnauthorizedError
from app.web.http.rate_limits import RateLimit, too_many
from app.web.http.request_log import current_request_id, note_ids
from app.web.openapi import document, swagger_ui
from app.web.openapi.resource import Resource
from app.web.services import services

_SAFE_METHODS = frozenset({"GET", "HEAD"})


class Authentication:
    """Hook of an application that checks the API key of each request before its view runs."""

    def __init__(self, app: Flask, resources: Sequence[Resource]) -> None:
        # Scope for reads (true) and writes (false) of each blueprint; None for public ones.
        self._scopes: dict[tuple[str, bool], Scope | None] = {(swagger_ui.NAME, True): None}
        for each in resources:
            self._scopes[each.name, True] = None if each.is_public else each.read_scope
            self._scopes[each.name, False] = None if each.is_public else each.write_scope
        app.before_request(self._authorize)

    def _authorize(self) -> None:
        """Raise UnauthorizedError, ForbiddenError or RateLimitedError unless the request's key permits it."""
        # Without a matching route the answer is 404 or 405 even without a key: paths are not secret.
        if request.url_rule is None or request.method == "OPTIONS" or request.path == document.PATH:
            return
        scope = self._scopes.get((request.blueprint or "", request.method in _SAFE_METHODS), Scope.ADMIN)
        if scope is None:
            return
        presented = bearer()
        try:
            _check(presented, scope)
        except (UnauthorizedError, ForbiddenError, RateLimitedError) as error:
            services().refusals.note(error, presented, request.remote_addr or "-", current_request_id())
            raise


def verify_again() -> None:
    """Raise UnauthorizedError if the key of a resumed request is no longer valid; does not count the request."""
    if "api_key" in g:
        g.api_key = services().keys.verify(bearer())


def bearer() -> str:
    """Return the API key in the current request's header; empty without one."""
    kind, _, key = request.headers.get("Authorization", "").strip().partition(" ")
    return key.strip() if kind.lower() == "bearer" else ""


def _check(presented: str, scope: Scope) -> None:
    if not presented:
        raise UnauthorizedError("An API key is required: send `Authorization: Bearer te_...`.")
    g.api_key = key = _verified(presented)
    note_ids(key_id=key.key_id)
    limit = services().key_limit
    if limit is not None:
        _count(limit, key)
    if not key.allows(scope):
        raise ForbiddenError(f"This API key lacks the scope {scope.value!r}.")


def _verified(presented: str) -> Key:
    """Verify a key; a valid key is accepted from any address, since clients behind a proxy share its address."""
    keys, limit, address = services().keys, services().bad_key_limit, request.remote_addr or ""
    if limit is None:
        return keys.verify(presented)
    try:
        return keys.verify(presented, is_flooded=partial(limit.is_used_up, address))
    except UnauthorizedError:
        allowance = limit.count(address)
        if allowance is not None and allowance.remaining < 0:
            raise too_many(allowance) from None
        raise


def _count(limit: RateLimit, key: Key) -> None:
    g.allowance = limit.count(key.key_id)
    if g.allowance is not None and g.allowance.remaining < 0:
        raise too_many(g.allowance)
