"""Traces of requests: the one that a client's headers name."""

from flask import request

from app.tracing import headers
from app.tracing.context import TraceContext


def trace_of_request() -> TraceContext | None:
    """Return the position in a trace at which the current request stands, if it is in one."""
    parent = request.environ.get("HTTP_TRACEPARENT")
    if parent is None:
        return None
    return headers.context_of(headers.read(parent, request.environ.get("HTTP_TRACESTATE", "")))
