"""Trace context: what a job's row keeps of the trace that it was created in, as one line of text."""

import hashlib
from typing import NamedTuple, Self

_LINK = "link "


class TraceContext(NamedTuple):
    """The position in a trace from which a job continues, or to which it only links, in the words of the headers."""

    traceparent: str
    tracestate: str = ""
    is_link: bool = False

    @classmethod
    def stored(cls, text: str) -> Self:
        """Read what a row holds."""
        is_link = text.startswith(_LINK)
        traceparent, _, tracestate = text.removeprefix(_LINK).partition(" ")
        return cls(traceparent, tracestate, is_link)

    @property
    def trace_id(self) -> str:
        """The id of the trace, in hex."""
        return self.traceparent[3:35]

    def as_text(self, *, is_link: bool) -> str:
        """Return what a row is to hold: a link where each execution of the job is to have a trace of its own."""
        position = f"{self.traceparent} {self.tracestate}" if self.tracestate else self.traceparent
        return _LINK + position if is_link else position


def span_id_of(execution_id: str, attempt: int) -> int:
    """Return the id of the span of an attempt: whoever ends it, its receiver was told this one."""
    return int.from_bytes(hashlib.blake2b(f"{execution_id}/{attempt}".encode(), digest_size=8).digest())


def own_trace_id(execution_id: str) -> str:
    """Return the trace, in hex, of an execution that continues no other; the same in each of its attempts."""
    return hashlib.blake2b(execution_id.encode(), digest_size=16).hexdigest()
