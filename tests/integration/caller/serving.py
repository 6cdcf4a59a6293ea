"""The API on a real port, in this process, with a network in between that fails on demand."""

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
        """Say nothing."""


class Redirect(NamedTuple):
    """An answer that leads elsewhere."""

    location: str
    body: bytes = b""


class Weather:
    """What happens to the next requests: `lose` does them and cuts the answer off, `drop` cuts before; or a status."""

    def __init__(self, app: WSGI) -> None:
        self._app = app
        self._next: list[str | int | Redirect] = []
        self.seen: list[dict[str, str]] = []

    def then(self, *faults: str | int | Redirect) -> None:
        self._next += faults

    def clear(self) -> None:
        self._next.clear()
        self.seen.clear()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        fault = self._next.pop(0) if self._next else ""
        self.seen.append(
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
def serving(app: Flask) -> Iterator[tuple[str, Weather]]:
    """Serve an application; yields its address and its weather."""
    weather = Weather(app.wsgi_app)
    server = make_server("127.0.0.1", 0, weather, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", weather
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
