"""Metrics server: answers scrapes at its own address, on one thread that never blocks on a client."""

import contextlib
import logging
import selectors
import socket
import time
from dataclasses import dataclass, field

from app.kernel.function_types import Run
from app.kernel.metrics.exposition import CONTENT_TYPE
from app.kernel.threads import BackgroundThread

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 32
MAX_PER_SECOND = 50  # so that a flood of scrapes costs deliveries little CPU time
MAX_AT_ONCE = 10
PATIENCE_SECONDS = 10.0  # for the request, and for the client to read the answer
MAX_REQUEST_BYTES = 8192
BACKLOG = 64
RETRY_SECONDS = 1.0
POLL_SECONDS = 0.5
_PATH = "/metrics"


@dataclass(eq=False, slots=True)
class _Client:
    """One connection; `answer` is the rest that is still to be sent."""

    sock: socket.socket
    until: float
    request: bytearray = field(default_factory=bytearray)
    answer: memoryview | None = None


class MetricsServer(BackgroundThread):
    """Serves `GET /metrics`; while another process holds the address it retries each second.

    A connection is closed after PATIENCE_SECONDS, or earlier to make room for a new connection.
    """

    def __init__(self, address: str, text: Run[bytes]) -> None:
        super().__init__("te-metrics-http")
        host, _, port = address.rpartition(":")
        self._host, self._port = host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - as asked for
        self._text = text
        self._clients: dict[_Client, None] = {}  # the oldest first
        self._tokens, self._refilled_at = float(MAX_AT_ONCE), 0.0
        self._is_logged = False

    def run(self) -> None:
        """Serve until it is stopped; log an error and restart."""
        while not self.stopping.is_set():
            try:
                with self._listening() as listener, selectors.DefaultSelector() as self._selector:
                    log.info("serving metrics at http://%s:%d%s", self._host, self._port, _PATH)
                    self._serve(listener)
            except OSError as error:
                if not self._is_logged:
                    log.info("could not serve metrics: %s; retrying every %.0f s", error, RETRY_SECONDS)
                self._is_logged = True
            except Exception:
                log.exception("restarting te-metrics-http after an unexpected error")
            finally:
                for client in self._clients:
                    client.sock.close()
                self._clients.clear()
            self.stopping.wait(RETRY_SECONDS)

    def _listening(self) -> socket.socket:
        family, kind, *_, address = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
        return listener

    def _serve(self, listener: socket.socket) -> None:
        self._is_logged = accepts = False
        while not self.stopping.is_set():
            now = time.monotonic()
            self._tokens = min(MAX_AT_ONCE, self._tokens + (now - self._refilled_at) * MAX_PER_SECOND)
            self._refilled_at = now
            if accepts is not (self._tokens >= 1):
                accepts = not accepts
                if accepts:
                    self._selector.register(listener, selectors.EVENT_READ)
                else:
                    self._selector.unregister(listener)
            for key, _ in self._selector.select(POLL_SECONDS if accepts else 1 / MAX_PER_SECOND):
                if key.data is None:
                    self._accept(listener)
                elif key.data in self._clients:
                    self._continue(key.data)
            while self._clients and (oldest := next(iter(self._clients))).until <= time.monotonic():
                self._end(oldest)

    def _accept(self, listener: socket.socket) -> None:
        self._tokens -= 1
        try:
            sock, _ = listener.accept()
        except BlockingIOError:
            return
        except OSError:  # no descriptor is left
            self._tokens = -float(MAX_PER_SECOND)
            return
        if len(self._clients) >= MAX_CONNECTIONS:
            self._end(next(iter(self._clients)))
        sock.setblocking(False)
        client = _Client(sock, time.monotonic() + PATIENCE_SECONDS)
        self._clients[client] = None
        self._selector.register(sock, selectors.EVENT_READ, client)

    def _continue(self, client: _Client) -> None:
        try:
            if client.answer is None:
                self._read(client)
            elif client.answer:
                self._write(client, client.answer)
            elif not client.sock.recv(MAX_REQUEST_BYTES):
                self._end(client)  # the client has read the answer
        except BlockingIOError:
            pass
        except OSError:
            self._end(client)

    def _read(self, client: _Client) -> None:
        piece = client.sock.recv(MAX_REQUEST_BYTES)
        client.request += piece
        if not piece or len(client.request) > MAX_REQUEST_BYTES:
            self._end(client)
        elif b"\r\n\r\n" in client.request:
            client.answer = memoryview(self._answer(bytes(client.request)))
            self._selector.modify(client.sock, selectors.EVENT_WRITE, client)

    def _write(self, client: _Client, answer: memoryview) -> None:
        client.answer = answer[client.sock.send(answer) :]
        if not client.answer:
            # Closing a socket with unread bytes sends a reset, which could discard the answer.
            client.sock.shutdown(socket.SHUT_WR)
            self._selector.modify(client.sock, selectors.EVENT_READ, client)

    def _answer(self, request: bytes) -> bytes:
        method, _, rest = request.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if path != _PATH:
            return _worded("404 Not Found", f"metrics are at {_PATH}\n".encode())
        if method != "GET":
            return _worded("405 Method Not Allowed", b"only GET is allowed\n", "Allow: GET\r\n")
        try:
            return _worded("200 OK", self._text())
        except Exception:
            log.exception("could not render metrics")
            return _worded("500 Internal Server Error", b"could not render metrics\n")

    def _end(self, client: _Client) -> None:
        del self._clients[client]
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(client.sock)
        client.sock.close()


def _worded(status: str, body: bytes, more: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n{more}"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
