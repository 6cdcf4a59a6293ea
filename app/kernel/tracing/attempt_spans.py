"""Attempts: how the span of one begins, in whichever process it is recorded."""

from collections.abc import Sequence
from typing import Protocol

from opentelemetry.trace import Link, Span, SpanContext, SpanKind

from app.kernel.tracing import trace_headers
from app.kernel.tracing.context import TraceContext, own_trace_id, span_id_of
from app.kernel.tracing.exporting import Exporting
from schema.states import EndpointType

# Who gets it answers it, and does not take it from somewhere later on.
_ANSWERED = frozenset({EndpointType.HTTP, EndpointType.NOTIFICATION})
_NOWHERE = SpanContext(0, 0, is_remote=False)


class SpannedAttempt(Protocol):
    """What a span says of an attempt: a claim has it, and so has the row of what was taken back."""

    @property
    def execution_id(self) -> str: ...
    @property
    def job_id(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def endpoint(self) -> str: ...
    @property
    def endpoint_type(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def worker_id(self) -> str: ...
    @property
    def trace_context(self) -> str | None: ...


def begin(exporting: Exporting, tried: SpannedAttempt, links: Sequence[Link], began: int) -> Span:
    """Start the span of an attempt that began at an instant, in nanoseconds since 1970.

    It is below what its job or itself was asked for by, or the first one of the execution's own trace, linked to that.
    """
    attributes = {
        "task_executor.execution_id": tried.execution_id,
        "task_executor.job_id": tried.job_id,
        "task_executor.attempt": tried.attempt,
        "task_executor.endpoint": tried.endpoint,
        "task_executor.endpoint_type": tried.endpoint_type,
        "task_executor.queue": tried.queue,
        "task_executor.worker_id": tried.worker_id,
    }
    kind = SpanKind.CLIENT if tried.endpoint_type in _ANSWERED else SpanKind.PRODUCER
    context = TraceContext.stored(tried.trace_context or "")
    parent = trace_headers.read(context.traceparent, context.tracestate)
    if parent.is_valid and context.is_link:
        parent, links = _NOWHERE, [*links, Link(parent)]
    with exporting.named(int(own_trace_id(tried.execution_id), 16), span_id_of(tried.execution_id, tried.attempt)):
        return exporting.child("attempt", parent, links, kind=kind, attributes=attributes, start_time=began)
