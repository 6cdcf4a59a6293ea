"""Exporting: creates the spans of this process and sends them to a collector, by OTLP over HTTP.

The SDK's own thread sends the spans. Spans that it cannot send in time are dropped: no work waits for a collector, and
the end of the process waits for STOP_SECONDS at most.
"""

import logging
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, NoOpTracer, Span, SpanContext, SpanKind, Tracer
from opentelemetry.trace import set_span_in_context as _in_context

from app.kernel.config import SettingError
from app.kernel.threads import BackgroundThread
from app.kernel.tracing.context import TraceContext, span_id_of, trace_of
from app.kernel.tracing.span_headers import span_in_headers
from schema.states import EndpointType

log = logging.getLogger(__name__)

OFF = "off"
STOP_SECONDS = 2.0
LIBRARIES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
NO_SPAN = SpanContext(0, 0, is_remote=False)
# The receiver answers. With other transports it reads the message later.
_ANSWERED = frozenset({EndpointType.HTTP, EndpointType.NOTIFICATION})
_ATTEMPT_ATTRIBUTES = ("execution_id", "job_id", "attempt", "endpoint", "endpoint_type", "queue", "worker_id")


def exporting(mode: str, role: str) -> "list[Exporting]":
    """Return the thread that records and exports spans; an empty list if TE_TRACES is off. Raises SettingError."""
    return [] if mode == OFF else [Exporting(role)]


class Exporting(BackgroundThread):
    """Creates spans, and exports them from its start to its stop. All settings are OTEL_* in the environment."""

    def __init__(self, role: str, libraries: Sequence[str] = LIBRARIES) -> None:
        """Raise SettingError if the SDK is missing."""
        super().__init__("te-spans")
        if not all(_is_installed(library) for library in libraries):
            raise SettingError("TE_TRACES needs the SDK of OpenTelemetry: pip install 'task-executor[traces]'")
        self._sdk: Any = import_module("app.kernel.tracing.sdk").Sdk(f"task-executor-{role}")
        self.tracer: Tracer = NoOpTracer()  # until it is started

    def start(self) -> None:
        """Begin to record, in the process that records and not in its parent."""
        try:
            self.tracer = self._sdk.open()
        except ValueError as error:
            log.error(  # noqa: TRY400
                "could not start recording spans: the OTEL_* variables are inconsistent: %s; recording none", error
            )
            return
        super().start()

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> bool:
        """Send the remaining spans; return false, and log a warning, if the collector did not take them in time."""
        ended = super().stop(timeout_seconds)
        if not ended:
            log.warning("dropped the last spans: the collector did not accept them within %.0f s", timeout_seconds)
        return ended

    def run(self) -> None:
        self.stopping.wait()
        self._sdk.close()

    def child(self, name: str, parent: SpanContext, links: Sequence[Link], *, kind: SpanKind, **options: Any) -> Span:
        """Start a span below another; it begins a trace if the parent is invalid."""
        context = _in_context(NonRecordingSpan(parent), Context())
        return self.tracer.start_span(name, context, kind=kind, links=links, **options)

    def begin_attempt(self, attempt: Any, links: Sequence[Link], began: int) -> Span:
        """Start the span of an attempt that began at an instant, in nanoseconds since 1970.

        `attempt` is a claim, or a row of an attempt that was taken back. The parent is the span that created the job or
        started the execution. A job that only links to that span has a trace for each execution.
        """
        attributes = {f"task_executor.{name}": getattr(attempt, name) for name in _ATTEMPT_ATTRIBUTES}
        kind = SpanKind.CLIENT if attempt.endpoint_type in _ANSWERED else SpanKind.PRODUCER
        context = TraceContext.stored(attempt.trace_context or "")
        parent = span_in_headers(context.traceparent, context.tracestate)
        if parent.is_valid and context.is_link:
            parent, links = NO_SPAN, [*links, Link(parent)]
        execution_id = attempt.execution_id
        with self._sdk.ids.next_is(int(trace_of(execution_id).trace_id, 16), span_id_of(execution_id, attempt.attempt)):
            return self.child("attempt", parent, links, kind=kind, attributes=attributes, start_time=began)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent
        return False
