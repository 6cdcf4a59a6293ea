"""Traces of requests: the one that a client's headers name, and spans of ours where somebody wants them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flask import Flask, Response, g, request
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode

from app.kernel.tracing import trace_headers
from app.kernel.tracing.context import TraceContext
from app.kernel.tracing.exporting import Exporting
from app.web.http.request_ids import current_request_id, note_ids
from app.web.http.requests_counted import route_of_request

if TYPE_CHECKING:
    from app.queue.jobs.job_model import Job

# Probes and scrapes come every few seconds, of each process.
_UNRECORDED = ("/health", "/metrics")


def register(app: Flask, exporting: Sequence[Exporting]) -> None:
    """Record a span of each request, by the template of its route; without `exporting` the log names their traces."""
    if not exporting:
        app.before_request(_note_caller)
    for one in exporting:
        app.before_request(lambda exporting=one: _begin(exporting))
        app.after_request(_end)


def trace_of_new_jobs() -> TraceContext | None:
    """Return the position in a trace at which the current request creates jobs, or asks for an execution by hand.

    None where it is in no trace.
    """
    if (span := _span("request_span")) is not None:
        exporting: Exporting = g.exporting
        g.create_span = exporting.child("create", span.get_span_context(), (), kind=SpanKind.PRODUCER)
        return trace_headers.context_of(g.create_span.get_span_context())
    trace: TraceContext | None = g.get("caller_trace")
    return trace


def note_created(job: "Job") -> None:
    """Name the job that the current request has created, or found."""
    note_execution(None if job.execution is None else job.execution.execution_id, job.job_id, job.endpoint)


def note_execution(execution_id: str | None, job_id: str, endpoint: str) -> None:
    """Name the execution that the current request has asked for, and its job."""
    if (span := _span("create_span")) is not None:
        span.set_attribute("task_executor.job_id", job_id)
        span.set_attribute("task_executor.endpoint", endpoint)
        if execution_id is not None:
            span.set_attribute("task_executor.execution_id", execution_id)


def _note_caller() -> None:
    if "HTTP_TRACEPARENT" in request.environ and (trace := trace_headers.context_of(_caller())) is not None:
        g.caller_trace = trace
        note_ids(trace_id=trace.trace_id)


def _begin(exporting: Exporting) -> None:
    if request.path.startswith(_UNRECORDED):
        return
    route, method = route_of_request()
    attributes = {
        "http.request.method": method,
        "http.route": route,
        "task_executor.request_id": current_request_id(),
    }
    g.exporting = exporting
    g.request_span = exporting.child(f"{method} {route}", _caller(), (), kind=SpanKind.SERVER, attributes=attributes)
    context = g.request_span.get_span_context()
    note_ids(trace_id=f"{context.trace_id:032x}", span_id=f"{context.span_id:016x}")


def _end(response: Response) -> Response:
    for name in ("create_span", "request_span"):
        span = _span(name)
        if span is not None:
            if name == "request_span":
                span.set_attribute("http.response.status_code", response.status_code)
            if response.status_code >= 500:
                span.set_status(Status(StatusCode.ERROR))
            span.end()
    return response


def _span(name: str) -> Span | None:
    span: Span | None = g.get(name)
    return span


def _caller() -> SpanContext:
    environ = request.environ
    return trace_headers.read(environ.get("HTTP_TRACEPARENT", ""), environ.get("HTTP_TRACESTATE", ""))
