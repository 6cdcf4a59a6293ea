"""The API on a real port of this process, behind a network that fails on demand."""

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from flask import Flask
from werkzeug.serving import WSGIRequestHandler, make_server

WSGI = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002
        """Log nothing."""


class Redirect(NamedTuple):
    """A redirect in place of the answer."""

    location: str
    body: bytes = b""


class FaultyNetwork:
    """Network that applies one fault to each of the next requests, and records all requests.

    Fault `drop` closes the connection before the request runs, `lose` closes it after the request has run.
    A number is the status of an answer in place of the service's, and a `Redirect` is a redirect.
    """

    def __init__(self, app: WSGI) -> None:
        self._app = app
        self._next: list[str | int | Redirect] = []
        self.requests: list[dict[str, str]] = []

    def fail_next(self, *faults: str | int | Redirect) -> None:
        self._next += faults

    def clear(self) -> None:
        self._next.clear()
        self.requests.clear()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        fault = self._next.pop(0) if self._next else ""
        self.requests.append(
            {
                "path": environ["RAW_URI"],
                "method": environ["REQUEST_METHOD"],
                "key": environ.get("HTTP_IDEMPOTENCY_KEY", ""),
                "authorization": environ.get("HTTP_AUTHORIZATION", ""),
            }
        )
        if isinstance(fault, int):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response(f"{fault} Fault", [("Retry-After", "0"), ("Content-Type", "text/html")])
            return [b"<p>not the service</p>"]
        if isinstance(fault, Redirect):
            start_response("302 Found", [("Location", fault.location), ("Content-Length", str(len(fault.body)))])
            return [fault.body]
        if fault == "drop":
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        answer = b"".join(self._app(environ, start_response)) if fault != "drop" else b""
        if fault:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return [answer]


@contextmanager
def serving(app: Flask) -> Iterator[tuple[str, FaultyNetwork]]:
    """Serve an application; yield its address and its network."""
    network = FaultyNetwork(app.wsgi_app)
    server = make_server("127.0.0.1", 0, network, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", network
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
