"""Headers of W3C Trace Context, `traceparent` and `tracestate`, read by the rules of the standard."""

import logging

from opentelemetry.trace import SpanContext, TraceState, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app.kernel.tracing.context import TraceContext

# Whoever passes a trace on has to take so many characters; a longer state is left out.
MOST_STATE_CHARACTERS = 512
_LONGEST_PARENT = 128

# It would tell of each malformed header, in the client's words.
logging.getLogger(TraceState.__module__).setLevel(logging.ERROR)
_PROPAGATOR = TraceContextTextMapPropagator()


def read(traceparent: str, tracestate: str = "") -> SpanContext:
    """Return the span of a caller: one that is not valid where `traceparent` is malformed.

    A malformed or long `tracestate` is left out.
    """
    state = tracestate if len(tracestate) <= MOST_STATE_CHARACTERS else ""
    parent = traceparent if len(traceparent) <= _LONGEST_PARENT else ""
    context = _PROPAGATOR.extract({"traceparent": parent, "tracestate": state})
    return get_current_span(context).get_span_context()


def context_of(span: SpanContext) -> TraceContext | None:
    """Return the position of a span; None where it is not valid."""
    if not span.is_valid:
        return None
    parent = f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
    return TraceContext(parent, span.trace_state.to_header())
