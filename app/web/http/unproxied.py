"""Objects behind Flask's proxies: each access to an attribute of a proxy takes four calls."""

from flask import Flask, Request, current_app, g, request
from flask.ctx import _AppCtxGlobals


def current_application() -> Flask:
    """Return the application of the current request or command."""
    found: Flask = current_app._get_current_object()  # type: ignore[attr-defined] # noqa: SLF001 - as documented
    return found


def current_request() -> Request:
    """Return the current request."""
    found: Request = request._get_current_object()  # type: ignore[attr-defined] # noqa: SLF001 - as documented
    return found


def current_values() -> _AppCtxGlobals:
    """Return the values of the current request, which `flask.g` also has."""
    found: _AppCtxGlobals = g._get_current_object()  # noqa: SLF001 - as documented
    return found
