"""Metrics server: answers scrapes at its own address, on one thread that never blocks on a client."""

import asyncio
import logging
import socket

from app.kernel.function_types import Run
from app.kernel.threads import BackgroundThread

log = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_CONNECTIONS = 32
MAX_PER_SECOND = 50  # so that a flood of scrapes costs deliveries little CPU time
PATIENCE_SECONDS = 10.0  # for the request, and for the client to read the answer
MAX_REQUEST_BYTES = 8192
BACKLOG = 64
RETRY_SECONDS = 1.0
POLL_SECONDS = 0.5
_PATH = "/metrics"


class MetricsServer(BackgroundThread):
    """Serves `GET /metrics`; while another process holds the address it retries each second.

    A connection is closed after `patience_seconds`, or earlier to make room for a new connection.
    """

    def __init__(self, address: str, text: Run[bytes], *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        super().__init__("te-metrics-http")
        host, _, port = address.rpartition(":")
        self._host, self._port = host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - as asked for
        self._text = text
        self._patience_seconds = patience_seconds
        self._is_logged = False

    def run(self) -> None:
        """Serve until it is stopped; log an error and restart."""
        while not self.stopping.is_set():
            try:
                with self._listening() as listener:
                    log.info("serving metrics at http://%s:%d%s", self._host, self._port, _PATH)
                    self._is_logged = False
                    asyncio.run(self._serve(listener))
            except OSError as error:
                if not self._is_logged:
                    log.info("could not serve metrics: %s; retrying every %.0f s", error, RETRY_SECONDS)
                self._is_logged = True
            except Exception:
                log.exception("unexpected error in te-metrics-http; restarting it")
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

    async def _serve(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        clients: dict[asyncio.Task[None], None] = {}  # the oldest first
        while not self.stopping.is_set():
            # A cancelled `sock_accept` could close a connection that it has just accepted.
            accepting = loop.create_task(loop.sock_accept(listener))
            while not accepting.done() and not self.stopping.is_set():
                await asyncio.wait({accepting}, timeout=POLL_SECONDS)
            if not accepting.done():
                return
            try:
                sock, _ = accepting.result()
            except OSError:  # no descriptor is free; clients with a connection are still answered
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if len(clients) >= MAX_CONNECTIONS:
                next(iter(clients)).cancel()
            client = loop.create_task(self._answer(sock))
            clients[client] = None
            client.add_done_callback(clients.pop)
            await asyncio.sleep(1 / MAX_PER_SECOND)

    async def _answer(self, sock: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=sock, limit=MAX_REQUEST_BYTES)
        try:
            async with asyncio.timeout(self._patience_seconds):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._response(request))
                writer.write_eof()
                # Closing a socket with unread bytes sends a reset, which could discard the answer.
                while await reader.read(MAX_REQUEST_BYTES):
                    pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.transport.abort()

    def _response(self, request: bytes) -> bytes:
        method, _, rest = request.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if path != _PATH:
            return _worded("404 Not Found", f"metrics are at {_PATH}\n".encode())
        if method != "GET":
            return _worded("405 Method Not Allowed", b"only GET is allowed\n", "Allow: GET\r\n")
        try:
            return _worded("200 OK", self._text())
        except Exception:
            log.exception("could not render metrics; answering 500")
            return _worded("500 Internal Server Error", b"could not render metrics\n")


def _worded(status: str, body: bytes, more: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n{more}"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
