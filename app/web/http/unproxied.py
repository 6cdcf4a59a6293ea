"""Objects behind Flask's proxies: each access to an attribute of a proxy takes four calls, a getter one."""

from typing import Any, cast

from flask import Flask, Request, current_app, g, request
from flask.ctx import _AppCtxGlobals

from app.kernel.function_types import Run


def _behind(proxy: Any) -> Run[Any]:
    return cast("Run[Any]", proxy._get_current_object)  # noqa: SLF001 - as documented


current_application: Run[Flask] = _behind(current_app)
"""Return the application of the current request or command."""

current_request: Run[Request] = _behind(request)
"""Return the current request."""

current_values: Run[_AppCtxGlobals] = _behind(g)
"""Return the values of the current request, which `flask.g` also has."""
