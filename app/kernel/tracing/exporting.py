"""Exporting: the spans of this process on their way to a collector, by OTLP over HTTP.

The SDK's own thread sends them. What it does not get rid of in time is dropped: nobody waits for a collector, and the
end of the process does so for STOP_SECONDS at most.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, NoOpTracer, Span, SpanContext, SpanKind, Tracer
from opentelemetry.trace import set_span_in_context as _in_context

from app.kernel.config import SettingError
from app.kernel.threads import BackgroundThread

log = logging.getLogger(__name__)

OFF = "off"
STOP_SECONDS = 2.0
LIBRARIES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def exporting(mode: str, role: str) -> "list[Exporting]":
    """Return the thread of a process that records spans; none where TE_TRACES is off. Raises SettingError."""
    return [] if mode == OFF else [Exporting(role)]


class Exporting(BackgroundThread):
    """Makes spans, and exports them from its start to its stop. Everything else is set by OTEL_* in the environment."""

    def __init__(self, role: str) -> None:
        """Raise SettingError where the SDK is missing."""
        super().__init__("te-spans")
        if not all(_is_there(library) for library in LIBRARIES):
            raise SettingError("TE_TRACES needs the SDK of OpenTelemetry: pip install 'task-executor[traces]'")
        self._sdk: Any = import_module("app.kernel.tracing.sdk").Sdk(f"task-executor-{role}")
        self.tracer: Tracer = NoOpTracer()  # until it is started

    def start(self) -> None:
        """Begin to record, in the process that is to do so and not in its parent."""
        try:
            self.tracer = self._sdk.open()
        except ValueError as error:
            log.error("no spans are recorded, since variables OTEL_… do not fit together: %s", error)  # noqa: TRY400
            return
        super().start()

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> bool:
        """Send what is left; False, with a warning, when the collector did not take it in time."""
        ended = super().stop(timeout_seconds)
        if not ended:
            log.warning("the last spans were not taken by their collector in time")
        return ended

    def run(self) -> None:
        """Wait for the end, and send what is left then."""
        self.stopping.wait()
        self._sdk.close()

    @contextmanager
    def named(self, trace_id: int, span_id: int) -> Iterator[None]:
        """Give the one span that this thread starts meanwhile its id; and its trace, unless it is below another."""
        with self._sdk.ids.next_is(trace_id, span_id):
            yield

    def child(self, name: str, parent: SpanContext, links: Sequence[Link], *, kind: SpanKind, **options: Any) -> Span:
        """Start a span below another; a first one where the other is not valid."""
        context = _in_context(NonRecordingSpan(parent), Context())
        return self.tracer.start_span(name, context, kind=kind, links=links, **options)


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent
        return False
