"""The SDK of OpenTelemetry as this project uses it. Only imported where spans are exported: it comes with an extra."""

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Tracer

from app.kernel.tracing.patience import BriefSession, SeldomSaid
from app.kernel.version import version


class Ids(RandomIdGenerator):
    """Ids of traces and spans: random, unless the thread that begins one has named it.

    So all attempts of an execution have one trace, and a sampler that looks at the id takes or leaves them all, in
    whichever process they are. And whoever ends an attempt ends the span that its receiver was told.
    """

    def __init__(self) -> None:
        self._named = threading.local()

    def generate_trace_id(self) -> int:
        """Return the id of a new trace."""
        named: int = getattr(self._named, "trace_id", 0)
        return named or super().generate_trace_id()

    def generate_span_id(self) -> int:
        """Return the id of a new span."""
        named: int = getattr(self._named, "span_id", 0)
        return named or super().generate_span_id()

    @contextmanager
    def next_is(self, trace_id: int, span_id: int) -> Iterator[None]:
        """Name the span that this thread begins now, and its trace if it is the first one of that."""
        self._named.trace_id, self._named.span_id = trace_id, span_id
        try:
            yield
        finally:
            self._named.trace_id = self._named.span_id = 0


class Sdk:
    """A provider of tracers that exports by OTLP over HTTP, as OTEL_* say."""

    def __init__(self, service: str) -> None:
        """Connect to nothing yet."""
        self.ids = Ids()
        # One request must not hold the thread for ever, so its time limit is the SDK's own.
        self._exporter = OTLPSpanExporter(session=BriefSession())
        # A line for each batch that is not taken could be very many.
        logging.getLogger(OTLPSpanExporter.__module__).filters[:] = [SeldomSaid()]
        own = {"service.name": service, "service.version": version(), "host.name": socket.gethostname()}
        # What the environment says of a resource has precedence.
        self._resource = Resource.create({**own, **OTELResourceDetector().detect().attributes})
        self._provider: TracerProvider | None = None

    def open(self) -> Tracer:
        """Start the thread that exports, and return what makes spans."""
        # Without its own hook at the end of the process, which would wait for a collector for 30 s.
        self._provider = TracerProvider(resource=self._resource, id_generator=self.ids, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        return self._provider.get_tracer("task-executor", version())

    def close(self) -> None:
        """Export what is left; may take as long as the collector does."""
        if self._provider is not None:
            self._provider.shutdown()
