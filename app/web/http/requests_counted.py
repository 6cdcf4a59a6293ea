"""Requests, counted: by the template of their route, never by their path."""

import re
import time
from functools import cache

from flask import Flask, Response, g, request

from app.kernel.metrics import PROCESS
from app.kernel.metrics.series import REQUEST_SECONDS, REQUESTS

NOWHERE = "none"
_CLIENT_CLOSED_REQUEST = 499  # nginx's word for it
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def register(app: Flask) -> None:
    """Count each answer."""
    app.before_request(_begin)
    app.after_request(_count)


def count_unread(status: int) -> None:
    """Count a request that was answered before anybody knew where it leads."""
    PROCESS.add(REQUESTS, NOWHERE, NOWHERE, _class_of(status))


def count_given_up() -> None:
    """Count the current request, whose client did not wait for its answer."""
    PROCESS.add(REQUESTS, *route_of_request(), _class_of(_CLIENT_CLOSED_REQUEST))


def _begin() -> None:
    g.counted_from = time.perf_counter()


def _count(response: Response) -> Response:
    route, method = route_of_request()
    PROCESS.add(REQUESTS, route, method, _class_of(response.status_code))
    PROCESS.observe(REQUEST_SECONDS, time.perf_counter() - g.get("counted_from", time.perf_counter()), route, method)
    return response


def route_of_request() -> tuple[str, str]:
    """Return the template of the current request's path, and its method; of both there are few."""
    route = NOWHERE if request.url_rule is None else _template(request.url_rule.rule)
    return route, request.method if request.method in _METHODS else NOWHERE


@cache
def _template(rule: str) -> str:
    return re.sub(r"<(?:[^:<>]*:)?([^<>]*)>", r"{\1}", rule)


def _class_of(status: int) -> str:
    return f"{status // 100}xx"
