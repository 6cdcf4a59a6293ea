"""Objects behind Flask's proxies: each access to an attribute of a proxy takes four calls, a getter one."""

from collections.abc import Callable
from typing import Any, cast

from flask import Flask, Request, current_app, g, request
from flask.ctx import _AppCtxGlobals


def _behind(proxy: Any) -> Callable[[], Any]:
    return cast("Callable[[], Any]", proxy._get_current_object)  # noqa: SLF001 - as documented


current_application: Callable[[], Flask] = _behind(current_app)
"""Return the application of the current request or command."""

current_request: Callable[[], Request] = _behind(request)
"""Return the current request."""

current_values: Callable[[], _AppCtxGlobals] = _behind(g)
"""Return the values of the current request, which `flask.g` also has."""
