"""Spans of a worker: claims, attempts, and the statements that write their results, if traces are on.

An error costs a span but no delivery.
"""

import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode

from app.kernel.tracing.context import TraceContext, context_of
from app.kernel.tracing.exporting import NO_SPAN, Exporting
from app.kernel.tracing.span_headers import span_in_headers
from app.queue.executions.completion import Completion
from app.queue.executions.execution_model import Claim
from schema.states import ExecutionStatus

if TYPE_CHECKING:
    from brokers.attempt import Attempt

log = logging.getLogger(__name__)

MAX_LINKS = 128  # of a span; the default of the SDK


@contextmanager
def _harmless() -> Iterator[None]:
    """Log an error instead of raising it; a decorated function returns None then."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - see the module docstring
        log.warning("could not record a span: %s; leaving it out", type(error).__name__)


class WorkerSpans:
    """Makes the spans of one worker process."""

    def __init__(self, exporting: Exporting, worker_id: str) -> None:
        self._exporting = exporting
        self._worker_id = worker_id

    @_harmless()
    def claimed(self, queue: str, claimed: Sequence["Attempt"], asked_at: float) -> None:
        """Record a claim that began at an instant on time.monotonic(), linked to the creation of its jobs."""
        links = [Link(origin) for attempt in claimed[:MAX_LINKS] if (origin := _origin(attempt.claim)).is_valid]
        if len(links) == len(claimed) and not any(link.context.trace_flags.sampled for link in links):
            return
        attributes: dict[str, str | int] = {
            "task_executor.queue": queue,
            "task_executor.worker_id": self._worker_id,
            "messaging.batch.message_count": len(claimed),
        }
        span = self._alone("claim", links, attributes, asked_at)
        for attempt in claimed:
            attempt.claim_span = span.get_span_context()

    @_harmless()
    def begin(self, attempt: "Attempt") -> TraceContext | None:
        """Start the span of an attempt that is sent now; return the trace context for the receiver."""
        attempt.span = self._start(attempt, time.time_ns())
        return context_of(attempt.span.get_span_context())

    @_harmless()
    def end(self, attempt: "Attempt", completion: Completion) -> SpanContext | None:
        """End the span of an attempt with its outcome; an attempt that was never sent gets a span too."""
        span, verdict = attempt.span, completion.verdict
        if span is None:
            span = self._start(attempt, time.time_ns() - completion.duration_ms * 1_000_000)
        attempt.span = None
        span.set_attribute("task_executor.outcome", verdict.status.value)
        told = verdict.output or verdict.error or {}
        if "status_code" in told:
            span.set_attribute("http.response.status_code", told["status_code"])
        if verdict.error is not None:
            span.set_attribute("error.type", str(verdict.error.get("type")))
            if verdict.status is not ExecutionStatus.SUCCESS:
                # As stored: without secrets, and without responses that the endpoint does not keep.
                span.set_status(Status(StatusCode.ERROR, str(verdict.error.get("message"))))
        span.end()
        return span.get_span_context()

    @_harmless()
    def completed(self, completions: Sequence[Completion], effective: Collection[str], asked_at: float) -> None:
        """Record a statement that wrote results, linked to the attempts."""
        ended = [one.span for one in completions if one.span is not None and one.span.trace_flags.sampled]
        if ended:
            attributes: dict[str, str | int] = {
                "task_executor.worker_id": self._worker_id,
                "task_executor.written": len(effective),
                "messaging.batch.message_count": len(completions),
            }
            self._alone("complete", [Link(context) for context in ended[:MAX_LINKS]], attributes, asked_at)

    def _alone(self, name: str, links: Sequence[Link], attributes: Mapping[str, str | int], asked_at: float) -> Span:
        """Record a span from an instant on time.monotonic() until now, in a trace of its own."""
        began = time.time_ns() - round((time.monotonic() - asked_at) * 1e9)
        exporting, kind = self._exporting, SpanKind.INTERNAL
        span = exporting.child(name, NO_SPAN, links, kind=kind, attributes=attributes, start_time=began)
        span.end()
        return span

    def _start(self, attempt: "Attempt", began: int) -> Span:
        links = [] if attempt.claim_span is None else [Link(attempt.claim_span)]
        return self._exporting.begin_attempt(attempt.claim, links, began)


def _origin(claim: Claim) -> SpanContext:
    """Return the context in which a job was created; invalid if unknown."""
    if claim.trace_context is None:
        return NO_SPAN
    context = TraceContext.stored(claim.trace_context)
    return span_in_headers(context.traceparent, context.tracestate)
