"""Headers of W3C Trace Context, read by OpenTelemetry: workers that record no spans never import it."""

import logging

from opentelemetry.trace import SpanContext, TraceState, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

MAX_STATE_CHARACTERS = 512  # the standard demands to pass on at least this length
MAX_PARENT_CHARACTERS = 128
_PROPAGATOR = TraceContextTextMapPropagator()

# TraceState would log each malformed header with its content.
logging.getLogger(TraceState.__module__).setLevel(logging.ERROR)


def span_in_headers(traceparent: str, tracestate: str = "") -> SpanContext:
    """Return the client's span; it is invalid if `traceparent` is malformed.

    A malformed or long `tracestate` is left out.
    """
    state = tracestate if len(tracestate) <= MAX_STATE_CHARACTERS else ""
    parent = traceparent if len(traceparent) <= MAX_PARENT_CHARACTERS else ""
    context = _PROPAGATOR.extract({"traceparent": parent, "tracestate": state})
    return get_current_span(context).get_span_context()
