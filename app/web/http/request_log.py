"""Request log: id, deadline, metrics, span and log line of each request."""

import logging
import re
import time
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from flask import Flask, Request, Response, g, has_request_context, request
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from app.kernel import ids
from app.kernel.db import deadline
from app.kernel.gathered_log import log_line
from app.kernel.log import IDS, LineKind
from app.kernel.metrics import PROCESS
from app.kernel.metrics.series import REQUEST_SECONDS, REQUESTS
from app.kernel.tracing.context import TraceContext, context_of
from app.kernel.tracing.span_headers import span_in_headers
from app.web.http.unproxied import current_request, current_values
from app.web.services import services

log = logging.getLogger(__name__)

HEADER = "X-Request-ID"
ACCEPTED = re.compile(r"[A-Za-z0-9._-]{1,128}")
MAX_PATH = 200  # characters of a path in a log line
NOWHERE = "none"
_CLIENT_CLOSED_REQUEST = 499  # as in nginx
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Logged by RefusalLog, in a bounded number of lines.
_REFUSED = frozenset({401, 403, 429})
# Paths of probes and scrapes, requested every few seconds.
_FREQUENT = ("/health", "/metrics")


class _Answered(NamedTuple):
    """An answered request, as its log line shows it."""

    ids: Mapping[str, str]
    method: str
    path: str
    status_code: int
    duration_ms: float


def _message_of(answered: _Answered) -> str:
    ids_, method, path, status, milliseconds = answered
    named = " ".join(f"{name}={value}" for name, value in ids_.items())
    return f"{method} {path}: {status} in {milliseconds} ms, {named}"


def _fields_of(answered: _Answered) -> Mapping[str, Any]:
    ids_, *own = answered
    return {**ids_, **dict(zip(_Answered._fields[1:], own, strict=True))}


LINE = LineKind(log, _message_of, _fields_of)


def register(app: Flask) -> None:
    """Add the hooks that begin and end each request, before all other hooks."""
    app.before_request(_begin)
    app.after_request(_end)
    app.teardown_request(_forget)


def begin_counting(app: Flask) -> None:
    """Report the failures of each route as 0."""
    PROCESS.begin(REQUESTS, [NOWHERE], [NOWHERE], ["5xx"])
    for rule in app.url_map.iter_rules():
        PROCESS.begin(REQUESTS, [_template(rule.rule)], (rule.methods or set()) - {"HEAD", "OPTIONS"}, ["5xx"])


def _begin() -> None:
    """Set the request's id, span and deadline, after which the answer is 504."""
    req, values, own = current_request(), current_values(), services()
    values.began_at = values.counted_from = time.perf_counter()
    given = req.headers.get(HEADER, "")
    values.request_id = given if ACCEPTED.fullmatch(given) else ids.request_id()
    noted = {"request_id": values.request_id}
    if req.view_args:
        named = req.view_args.items()
        noted |= {name: str(value)[:MAX_PATH] for name, value in named if name.endswith("_id")}
    IDS.set(noted)
    if own.exporting or "HTTP_TRACEPARENT" in req.environ:
        _begin_trace()
    deadline.begin(own.settings.request_timeout_seconds)


def _end(response: Response) -> Response:
    """Count and log the answer; at DEBUG without a key, for refusals and for probes."""
    req, values = current_request(), current_values()
    if "is_suspended" in values:
        return response
    status, (route, method), now = response.status_code, route_of(req), time.perf_counter()
    if services().exporting:
        _end_spans(status)
    PROCESS.add(REQUESTS, route, method, f"{status // 100}xx")
    PROCESS.observe(REQUEST_SECONDS, now - values.counted_from, route, method)
    response.headers[HEADER] = values.request_id
    if values.get("allowance") is not None:
        response.headers.update(values.allowance.headers())
    is_quiet = "api_key" not in values or status in _REFUSED or req.path.startswith(_FREQUENT)
    if log.isEnabledFor(logging.DEBUG if is_quiet else logging.INFO):
        milliseconds = round((now - values.began_at) * 1000, 1)
        answered = _Answered(IDS.get(), req.method, req.path[:MAX_PATH], status, milliseconds)
        if is_quiet:
            log.debug("%s", _message_of(answered), extra=_fields_of(answered))
        else:
            log_line(LINE, answered)
    return response


def _forget(_error: BaseException | None) -> None:
    IDS.set({})
    deadline.end()


def current_request_id() -> str:
    """Return the id of the current request; a new one outside a request."""
    return str(g.request_id) if has_request_context() and "request_id" in g else ids.request_id()


def note_ids(**ids_: str) -> None:
    """Add ids to further log lines of the current request."""
    IDS.set({**IDS.get(), **ids_})


def count_unread(status: int) -> None:
    """Count a request that was refused before it was parsed."""
    PROCESS.add(REQUESTS, NOWHERE, NOWHERE, f"{status // 100}xx")


def count_given_up() -> None:
    """Count the current request, whose client did not wait for its answer."""
    PROCESS.add(REQUESTS, *route_of(request), f"{_CLIENT_CLOSED_REQUEST // 100}xx")


def route_of(req: Request) -> tuple[str, str]:
    """Return the path template and the method of a request, as metric labels with few values."""
    route = NOWHERE if req.url_rule is None else _template(req.url_rule.rule)
    return route, req.method if req.method in _METHODS else NOWHERE


@cache
def _template(rule: str) -> str:
    return re.sub(r"<(?:[^:<>]*:)?([^<>]*)>", r"{\1}", rule)


def _begin_trace() -> None:
    """Begin a span named by the route if spans are exported; otherwise keep the client's trace context."""
    environ, exporting = request.environ, services().exporting
    caller = span_in_headers(environ.get("HTTP_TRACEPARENT", ""), environ.get("HTTP_TRACESTATE", ""))
    if not exporting:
        g.caller_trace = context_of(caller)
        if g.caller_trace is not None:
            note_ids(trace_id=g.caller_trace.trace_id)
    elif not request.path.startswith(_FREQUENT):
        route, method = route_of(request)
        named = {"http.request.method": method, "http.route": route, "task_executor.request_id": g.request_id}
        g.request_span = exporting[0].child(f"{method} {route}", caller, (), kind=SpanKind.SERVER, attributes=named)
        context = g.request_span.get_span_context()
        note_ids(trace_id=f"{context.trace_id:032x}", span_id=f"{context.span_id:016x}")


def _end_spans(status: int) -> None:
    for name in ("create_span", "request_span"):
        span: Span | None = g.get(name)
        if span is not None:
            if name == "request_span":
                span.set_attribute("http.response.status_code", status)
            if status >= 500:
                span.set_status(Status(StatusCode.ERROR))
            span.end()


def trace_of_new_jobs() -> TraceContext | None:
    """Return the trace context for jobs or executions that the current request creates; None without a trace.

    A resumed request keeps the span of its first run.
    """
    values = current_values()
    span: Span | None = values.get("request_span")
    if span is not None:
        if "create_span" not in values:
            values.create_span = (
                services().exporting[0].child("create", span.get_span_context(), (), kind=SpanKind.PRODUCER)
            )
        return context_of(values.create_span.get_span_context())
    trace: TraceContext | None = values.get("caller_trace")
    return trace


def note_execution(execution_id: str | None, job_id: str, endpoint: str) -> None:
    """Add the execution that the current request created or changed, and its job, to the span."""
    span: Span | None = g.get("create_span")
    if span is not None:
        span.set_attribute("task_executor.job_id", job_id)
        span.set_attribute("task_executor.endpoint", endpoint)
        if execution_id is not None:
            span.set_attribute("task_executor.execution_id", execution_id)
