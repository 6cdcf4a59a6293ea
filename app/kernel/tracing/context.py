"""Trace context: the position of a job in a trace, as headers of W3C Trace Context and as a line of text in a row."""

import hashlib
import random
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

_LINK = "link "


class TraceContext(NamedTuple):
    """Position in a trace from which a job continues, or to which it only links, in the form of the headers."""

    traceparent: str
    tracestate: str = ""
    is_link: bool = False

    @classmethod
    def stored(cls, text: str) -> Self:
        """Parse the text of a row."""
        is_link = text.startswith(_LINK)
        traceparent, _, tracestate = text.removeprefix(_LINK).partition(" ")
        return cls(traceparent, tracestate, is_link)

    @property
    def trace_id(self) -> str:
        """The id of the trace, in hex."""
        return self.traceparent[3:35]

    def as_text(self, *, is_link: bool) -> str:
        """Return the text for a row; with `is_link` each execution of the job gets its own trace."""
        position = f"{self.traceparent} {self.tracestate}" if self.tracestate else self.traceparent
        return _LINK + position if is_link else position


def context_of(span: "SpanContext") -> TraceContext | None:
    """Return the position of a span; None if it is invalid."""
    if not span.is_valid:
        return None
    parent = f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
    return TraceContext(parent, span.trace_state.to_header())


def span_id_of(execution_id: str, attempt: int) -> int:
    """Return the id of an attempt's span, which is the same in the process that ends the attempt for a lost worker."""
    return int.from_bytes(hashlib.blake2b(f"{execution_id}/{attempt}".encode(), digest_size=8).digest())


def trace_of(execution_id: str, stored: str | None = None) -> TraceContext:
    """Return the trace context that an attempt continues: the stored context of its job, else a new span.

    The new spans of all attempts of an execution have the same trace id.
    """
    if stored is not None and not stored.startswith(_LINK):
        return TraceContext.stored(stored)
    trace_id = hashlib.blake2b(execution_id.encode(), digest_size=16).hexdigest()
    return TraceContext(f"00-{trace_id}-{random.getrandbits(64):016x}-01")
