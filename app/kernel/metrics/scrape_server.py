"""Server: answers scrapes at an address of its own, on one thread, whatever its clients do."""

import contextlib
import logging
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from app.kernel.metrics.exposition import CONTENT_TYPE
from app.kernel.threads import BackgroundThread

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 32
MOST_PER_SECOND = 50  # so that a flood takes little of the process's time from deliveries
MOST_AT_ONCE = 10
PATIENCE_SECONDS = 10.0  # for the request, and for the client to read the answer
MOST_REQUEST_BYTES = 8192
BACKLOG = 64
RETRY_SECONDS = 1.0
LOOK_SECONDS = 0.5
_PATH = "/metrics"


@dataclass(eq=False, slots=True)
class _Client:
    """One connection, from its acceptance to its end; `answer` is what is left to send."""

    sock: socket.socket
    until: float
    request: bytearray = field(default_factory=bytearray)
    answer: memoryview | None = None


class MetricsServer(BackgroundThread):
    """Serves `GET /metrics` as long as no other process has its address, and takes over when that one has gone.

    It never waits for a client: a connection has PATIENCE_SECONDS altogether, and may have to make place before that.
    """

    def __init__(self, address: str, text: Callable[[], bytes]) -> None:
        super().__init__("te-metrics-http")
        host, _, port = address.rpartition(":")
        self._host, self._port = host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - as asked for
        self._text = text
        self._clients: dict[_Client, None] = {}  # the oldest first
        self._allowance, self._allowed_at = float(MOST_AT_ONCE), 0.0
        self._is_told = False

    def run(self) -> None:
        """Serve until it is stopped; what goes wrong is logged, and it begins anew."""
        while not self.stopping.is_set():
            try:
                with self._listening() as listener, selectors.DefaultSelector() as self._selector:
                    log.info("metrics are served at http://%s:%d%s", self._host, self._port, _PATH)
                    self._serve(listener)
            except OSError as error:
                if not self._is_told:
                    log.info("metrics are not served here, as long as that lasts: %s", error)
                self._is_told = True
            except Exception:
                log.exception("te-metrics-http begins anew after an unexpected error")
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
        self._is_told = False
        accepts = False
        while not self.stopping.is_set():
            now = time.monotonic()
            self._allowance = min(MOST_AT_ONCE, self._allowance + (now - self._allowed_at) * MOST_PER_SECOND)
            self._allowed_at = now
            if accepts is not (self._allowance >= 1):
                accepts = not accepts
                if accepts:
                    self._selector.register(listener, selectors.EVENT_READ)
                else:
                    self._selector.unregister(listener)
            for key, _ in self._selector.select(LOOK_SECONDS if accepts else 1 / MOST_PER_SECOND):
                if key.data is None:
                    self._accept(listener)
                elif key.data in self._clients:
                    self._go_on(key.data)
            while self._clients and (oldest := next(iter(self._clients))).until <= time.monotonic():
                self._end(oldest)

    def _accept(self, listener: socket.socket) -> None:
        self._allowance -= 1
        try:
            sock, _ = listener.accept()
        except BlockingIOError:
            return
        except OSError:  # no descriptor is left
            self._allowance = -float(MOST_PER_SECOND)
            return
        if len(self._clients) >= MOST_CONNECTIONS:
            self._end(next(iter(self._clients)))
        sock.setblocking(False)
        client = _Client(sock, time.monotonic() + PATIENCE_SECONDS)
        self._clients[client] = None
        self._selector.register(sock, selectors.EVENT_READ, client)

    def _go_on(self, client: _Client) -> None:
        try:
            if client.answer is None:
                self._read(client)
            elif client.answer:
                self._write(client, client.answer)
            elif not client.sock.recv(MOST_REQUEST_BYTES):
                self._end(client)  # it has read the answer
        except BlockingIOError:
            pass
        except OSError:
            self._end(client)

    def _read(self, client: _Client) -> None:
        piece = client.sock.recv(MOST_REQUEST_BYTES)
        client.request += piece
        if not piece or len(client.request) > MOST_REQUEST_BYTES:
            self._end(client)
        elif b"\r\n\r\n" in client.request:
            client.answer = memoryview(self._answer(bytes(client.request)))
            self._selector.modify(client.sock, selectors.EVENT_WRITE, client)

    def _write(self, client: _Client, answer: memoryview) -> None:
        client.answer = answer[client.sock.send(answer) :]
        if not client.answer:
            # To close it with bytes unread could undo the answer.
            client.sock.shutdown(socket.SHUT_WR)
            self._selector.modify(client.sock, selectors.EVENT_READ, client)

    def _answer(self, request: bytes) -> bytes:
        method, _, rest = request.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if path != _PATH:
            return _worded("404 Not Found", f"metrics are at {_PATH}\n".encode())
        if method != "GET":
            return _worded("405 Method Not Allowed", b"only GET is answered\n", "Allow: GET\r\n")
        try:
            return _worded("200 OK", self._text())
        except Exception:
            log.exception("metrics could not be told")
            return _worded("500 Internal Server Error", b"metrics could not be told\n")

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
