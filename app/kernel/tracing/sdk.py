"""The SDK of OpenTelemetry and its limits. Imported only where spans are exported: the SDK comes with an extra."""

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Tracer

from app.kernel.version import version

MAX_ANSWER_BYTES = 65_536
MAX_LINE_CHARACTERS = 300
REPEAT_LINE_SECONDS = 60.0


class BriefSession(requests.Session):
    """A session that reads a bounded part of each answer within the timeout: the content of an answer is not used."""

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send a request and read its answer; a slow answer closes the connection."""
        seconds = kwargs.get("timeout")
        until = time.monotonic() + (seconds if isinstance(seconds, int | float) else 0.0)
        response = super().send(request, **kwargs | {"stream": True})
        left = MAX_ANSWER_BYTES
        try:
            while left > 0 and time.monotonic() < until and (piece := response.raw.read1(left)):
                left -= len(piece)
        finally:
            response.close()
        return response


class RareLines(logging.Filter):
    """Passes each kind of line once a minute, and cuts long lines: the exporter would log each failed batch."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind, now = str(record.msg), time.monotonic()
        if now - self._logged_at.get(kind, -REPEAT_LINE_SECONDS) < REPEAT_LINE_SECONDS:
            return False
        self._logged_at[kind] = now
        record.msg, record.args = record.getMessage()[:MAX_LINE_CHARACTERS], None
        return True


class Ids(RandomIdGenerator):
    """Ids of traces and spans: random, unless the calling thread has set the ids of its next span.

    So all attempts of an execution share a trace, and a sampler by trace id keeps or drops all of them, in every
    process. A scheduler that ends an attempt of a lost worker creates the span whose id the receiver has.
    """

    def __init__(self) -> None:
        self._next = threading.local()

    def generate_trace_id(self) -> int:
        trace_id: int = getattr(self._next, "trace_id", 0)
        return trace_id or super().generate_trace_id()

    def generate_span_id(self) -> int:
        span_id: int = getattr(self._next, "span_id", 0)
        return span_id or super().generate_span_id()

    @contextmanager
    def next_is(self, trace_id: int, span_id: int) -> Iterator[None]:
        """Set the id of the span that this thread starts in the block, and its trace id if the span has no parent."""
        self._next.trace_id, self._next.span_id = trace_id, span_id
        try:
            yield
        finally:
            self._next.trace_id = self._next.span_id = 0


class Sdk:
    """A provider of tracers that exports by OTLP over HTTP, with the settings of OTEL_*."""

    def __init__(self, service: str) -> None:
        """Connect to nothing yet."""
        self.ids = Ids()
        # The SDK's own timeout bounds each request.
        self._exporter = OTLPSpanExporter(session=BriefSession())
        logging.getLogger(OTLPSpanExporter.__module__).filters[:] = [RareLines()]
        own = {"service.name": service, "service.version": version(), "host.name": socket.gethostname()}
        # Attributes from the environment have precedence.
        self._resource = Resource.create({**own, **OTELResourceDetector().detect().attributes})
        self._provider: TracerProvider | None = None

    def open(self) -> Tracer:
        """Start the exporting thread, and return the tracer."""
        # Without the provider's exit hook, which would wait up to 30 s for a collector.
        self._provider = TracerProvider(resource=self._resource, id_generator=self.ids, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        return self._provider.get_tracer("task-executor", version())

    def close(self) -> None:
        """Export the remaining spans; may take as long as the collector does."""
        if self._provider is not None:
            self._provider.shutdown()
