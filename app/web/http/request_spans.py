"""Request spans: the trace context of the client's headers, and own spans if spans are exported."""

from flask import g, request
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode

from app.kernel.tracing.context import TraceContext, context_of, span_in_headers
from app.kernel.tracing.exporting import Exporting


def begin(exporting: Exporting, route: str, method: str) -> dict[str, str]:
    """Begin a span for the current request, named by its route; returns the ids for the log."""
    attributes = {
        "http.request.method": method,
        "http.route": route,
        "task_executor.request_id": g.request_id,
    }
    g.exporting = exporting
    g.request_span = exporting.child(f"{method} {route}", _caller(), (), kind=SpanKind.SERVER, attributes=attributes)
    context = g.request_span.get_span_context()
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


def note_caller() -> dict[str, str]:
    """Keep the client's trace context when no spans are exported; returns the trace id for the log."""
    trace = context_of(_caller())
    if trace is None:
        return {}
    g.caller_trace = trace
    return {"trace_id": trace.trace_id}


def end(status: int) -> None:
    """End the spans of the current request."""
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
    span: Span | None = g.get("request_span")
    if span is not None:
        if "create_span" not in g:
            g.create_span = g.exporting.child("create", span.get_span_context(), (), kind=SpanKind.PRODUCER)
        return context_of(g.create_span.get_span_context())
    trace: TraceContext | None = g.get("caller_trace")
    return trace


def note_execution(execution_id: str | None, job_id: str, endpoint: str) -> None:
    """Add the execution that the current request created or changed, and its job, to the span."""
    span: Span | None = g.get("create_span")
    if span is not None:
        span.set_attribute("task_executor.job_id", job_id)
        span.set_attribute("task_executor.endpoint", endpoint)
        if execution_id is not None:
            span.set_attribute("task_executor.execution_id", execution_id)


def _caller() -> SpanContext:
    environ = request.environ
    return span_in_headers(environ.get("HTTP_TRACEPARENT", ""), environ.get("HTTP_TRACESTATE", ""))
