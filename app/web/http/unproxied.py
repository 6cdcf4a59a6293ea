"""Objects behind Flask's proxies: each access to `flask.request` or `flask.g` takes four calls."""

from flask import Request, g, request
from flask.ctx import _AppCtxGlobals


def current_request() -> Request:
    """Return the current request."""
    found: Request = request._get_current_object()  # type: ignore[attr-defined] # noqa: SLF001 - as documented
    return found


def current_values() -> _AppCtxGlobals:
    """Return the values of the current request, which `flask.g` also has."""
    found: _AppCtxGlobals = g._get_current_object()  # noqa: SLF001 - as documented
    return found
