"""A collector of spans: OTLP over HTTP, in this process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """Keeps every span. `answers` delays the responses, `status` sets their status, `is_endless` their bodies."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        self.bytes: list[bytes] = []
        self.asked = threading.Event()
        self.answers = threading.Event()
        self.answers.set()
        self.status = 200
        self.is_endless = False
        self.bytes_taken = 0  # of endless response bodies
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.asked.set()
                collector.answers.wait(170)
                collector.take(self.path, body)
                self.send_response(collector.status)
                self.send_header("Content-Length", "99999999999" if collector.is_endless else "0")
                self.end_headers()
                with suppress(OSError):
                    while collector.is_endless:
                        collector.bytes_taken += self.wfile.write(bytes(65_536))

            def log_message(self, *_args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def take(self, path: str, body: bytes) -> None:
        assert path == "/v1/traces"
        request = ExportTraceServiceRequest.FromString(body)
        self.bytes.append(body)
        for resource in request.resource_spans:
            self.services.add(attributes(resource.resource.attributes)["service.name"])
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> Span:
        (span,) = self.named(name)
        return span

    def close(self) -> None:
        self.answers.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    return getattr(value, value.WhichOneof("value") or "string_value")


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    try:
        yield collector
    finally:
        collector.close()
