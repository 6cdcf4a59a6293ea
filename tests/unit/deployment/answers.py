"""Small HTTP server with a fixed answer, as a target of probes."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread


@contextmanager
def answering(status: int | None, path: str, text: str = "") -> Iterator[int]:
    """Answer GETs of a path with a status, or do not listen if the status is None; yield the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status or 0 if self.path == path else 404)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        port = server.server_port
        if status is not None:
            Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
            try:
                yield port
            finally:
                server.shutdown()
    if status is None:
        yield port
