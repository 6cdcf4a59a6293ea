"""Spans of a worker: claims, attempts and the statements that conclude them, while somebody wants them.

Nothing here may end a delivery: what goes wrong costs a span.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode

from app.kernel.tracing import attempt_spans, trace_headers
from app.kernel.tracing.context import TraceContext
from app.kernel.tracing.exporting import Exporting
from app.queue.executions.completion import Conclusion
from app.queue.executions.execution_model import Claim
from schema.states import ExecutionStatus

if TYPE_CHECKING:
    from brokers.attempt import Attempt

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger(__name__)

MOST_LINKS = 128  # of a span: what the SDK keeps unless it is told otherwise
_BEFORE_ATTEMPTS = SpanContext(0, 0, is_remote=False)


def _harmless(make: Callable[P, R]) -> Callable[P, R | None]:
    @wraps(make)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return make(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - see the module docstring
            log.warning("a span was lost: %s", type(error).__name__)
            return None

    return guarded


class WorkerSpans:
    """Makes the spans of one worker process."""

    def __init__(self, exporting: Exporting, worker_id: str) -> None:
        self._exporting = exporting
        self._worker_id = worker_id

    @_harmless
    def claimed(self, queue: str, claimed: Sequence["Attempt"], asked_at: float) -> None:
        """Record a claim that began at an instant on time.monotonic(), linked to what created the jobs."""
        links = [Link(origin) for attempt in claimed[:MOST_LINKS] if (origin := _origin(attempt.claim)).is_valid]
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

    @_harmless
    def begin(self, attempt: "Attempt") -> TraceContext | None:
        """Start the span of an attempt that is sent now; returns what its receiver is told."""
        attempt.span = self._start(attempt, time.time_ns())
        return trace_headers.context_of(attempt.span.get_span_context())

    @_harmless
    def end(self, attempt: "Attempt", conclusion: Conclusion) -> SpanContext:
        """End the span of an attempt, with its outcome; one that was never sent gets a span too."""
        span, verdict = attempt.span, conclusion.verdict
        if span is None:
            span = self._start(attempt, time.time_ns() - conclusion.duration_ms * 1_000_000)
        attempt.span = None
        span.set_attribute("task_executor.outcome", verdict.status.value)
        told = verdict.output or verdict.error or {}
        if "status_code" in told:
            span.set_attribute("http.response.status_code", told["status_code"])
        if verdict.error is not None:
            span.set_attribute("error.type", str(verdict.error.get("type")))
            if verdict.status is not ExecutionStatus.SUCCESS:
                # As the row has it: without secrets, and without what its endpoint does not want to be kept.
                span.set_status(Status(StatusCode.ERROR, str(verdict.error.get("message"))))
        span.end()
        return span.get_span_context()

    @_harmless
    def concluded(self, conclusions: Sequence[Conclusion], effective: Collection[str], asked_at: float) -> None:
        """Record a statement that wrote results, linked to their attempts."""
        ended = [one.span for one in conclusions if one.span is not None and one.span.trace_flags.sampled]
        if ended:
            attributes: dict[str, str | int] = {
                "task_executor.worker_id": self._worker_id,
                "task_executor.written": len(effective),
                "messaging.batch.message_count": len(conclusions),
            }
            self._alone("conclude", [Link(context) for context in ended[:MOST_LINKS]], attributes, asked_at)

    def _alone(self, name: str, links: Sequence[Link], attributes: Mapping[str, str | int], asked_at: float) -> Span:
        """Record a span in a trace of its own that began at an instant on time.monotonic() and ends now."""
        began = time.time_ns() - round((time.monotonic() - asked_at) * 1e9)
        exporting, kind = self._exporting, SpanKind.INTERNAL
        span = exporting.child(name, _BEFORE_ATTEMPTS, links, kind=kind, attributes=attributes, start_time=began)
        span.end()
        return span

    def _start(self, attempt: "Attempt", began: int) -> Span:
        links = [] if attempt.claim_span is None else [Link(attempt.claim_span)]
        return attempt_spans.begin(self._exporting, attempt.claim, links, began)


def _origin(claim: Claim) -> SpanContext:
    """Return where a job was created; not valid where nobody knows."""
    if claim.trace_context is None:
        return _BEFORE_ATTEMPTS
    context = TraceContext.stored(claim.trace_context)
    return trace_headers.read(context.traceparent, context.tracestate)
