"""gunicorn's threaded worker, which refuses what it cannot serve soon and waits for no client."""

import json
import logging
import random
import re
import socket
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from selectors import EVENT_READ
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

from app import ids
from app.api.http.errors import envelope
from app.api.http.request_ids import ACCEPTED
from app.errors import UnavailableError

log = logging.getLogger(__name__)

QUEUED_PER_THREAD = 8
PATIENCE_SECONDS = 5.0
LINGER_SECONDS = 2.0  # as long as gunicorn lets a client read its last answer
MOST_LINGERING = 256
PEEKED_BYTES = 4096
MOST_DRAINED_BYTES = 2 * 1024 * 1024
REPORT_SECONDS = 10.0
# Each path has a thread of its own: that of readiness may have to wait for the database.
HEALTH = (b"GET /health/live", b"GET /health/ready")
MOST_PROBES = 16

_REQUEST_ID = re.compile(rb"\r\nx-request-id:[ \t]*([!-~]*)[ \t]*\r\n", re.IGNORECASE)


class SheddingWorker(ThreadWorker):  # type: ignore[misc] # gunicorn ships no types
    """Serves as many requests as it has threads, lets some more wait, and answers 503 to all others at once.

    Only the main thread decides, and it never waits: a connection takes a thread once its first byte has come, is
    refused by one write that does not block, and is closed when its client has read the answer. Liveness and readiness
    are answered whatever else waits.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.most_queued = QUEUED_PER_THREAD * self.cfg.threads
        self.patience_seconds = PATIENCE_SECONDS  # how long a request waits for a thread
        self._threads: int = self.cfg.threads
        self._taken = 0  # connections that have a thread or wait for one
        self._queued: deque[tuple[float, Any, Future[Any]]] = deque()
        self._lingering: dict[Any, float] = {}  # until when, in this order
        self._refused = 0
        self._report_at = 0.0

    def init_process(self) -> None:
        """Make what must not exist before the fork, and serve until the end."""
        self._probes = {start: ThreadPoolExecutor(1) for start in HEALTH}
        self._probing = dict.fromkeys(HEALTH, 0)
        super().init_process()

    def enqueue_req(self, conn: Any) -> None:
        """Give a connection to a thread, or let it wait, or refuse it."""
        if conn.initialized or conn.data_ready:
            if self._taken < self._threads:
                self._submit(conn)
                return
            head = _first_bytes(conn)
        else:
            head = _first_bytes(conn)
            if head is None:
                self._await_first_byte(conn)
                return
            conn.data_ready = True
        self._find_place(conn, head or b"")

    def _find_place(self, conn: Any, head: bytes) -> None:
        if self._taken < self._threads:
            self._submit(conn)
            return
        probe = next((start for start in HEALTH if head.startswith(start)), None)
        if probe is not None and self._probing[probe] < MOST_PROBES:
            self._probing[probe] += 1
            self._run(self._probes[probe], conn, partial(self._probed, probe))
        elif self._taken < self._threads + self.most_queued:
            self._queued.append((time.monotonic() + self.patience_seconds, conn, self._submit(conn)))
        else:
            self._refuse(conn, head)
            self._linger(conn)

    def _submit(self, conn: Any) -> "Future[Any]":
        self._taken += 1
        return self._run(self.tpool, conn, self._left)

    def _run(self, pool: ThreadPoolExecutor, conn: Any, finish: "Callable[[Any, Future[Any]], None]") -> "Future[Any]":
        future = pool.submit(self.handle, conn)
        future.add_done_callback(lambda done: self.method_queue.defer(finish, conn, done))
        return future

    def _left(self, conn: Any, future: "Future[Any]") -> None:
        self._taken -= 1
        self.finish_request(conn, future)

    def _probed(self, probe: bytes, conn: Any, future: "Future[Any]") -> None:
        self._probing[probe] -= 1
        self.finish_request(conn, future)

    def finish_request(self, conn: Any, future: "Future[Any]") -> None:
        """Keep a connection for its next request, or close it; gunicorn itself would wait for the client here."""
        if not future.cancelled() and future.exception() is None and future.result():
            super().finish_request(conn, future)
        else:
            self._linger(conn)

    def murder_pending(self) -> None:
        """Give up whoever waits for too long; called after each round of events, at least once a second."""
        super().murder_pending()
        now = time.monotonic()
        while self._queued:
            until, conn, future = self._queued[0]
            if not (future.running() or future.done()):
                if now < until:
                    break
                if future.cancel():
                    self._refuse(conn, _first_bytes(conn) or b"")
            self._queued.popleft()
        while self._lingering:
            conn, until = next(iter(self._lingering.items()))
            if now < until:
                break
            self._end(conn)

    def _cap_keepalive(self, deadline: float) -> None:
        """Let a worker that stops wait no longer for first bytes than for further requests."""
        super()._cap_keepalive(deadline)
        for conn in self.pending_conns:
            conn.timeout = min(conn.timeout, deadline)

    def _await_first_byte(self, conn: Any) -> None:
        """Wait for a client without a thread, as gunicorn does after it has held one for a while."""
        conn.timeout = time.monotonic() + self.cfg.keepalive
        self.pending_conns.append(conn)
        self.poller.register(conn.sock, EVENT_READ, partial(self.on_pending_socket_readable, conn))

    def _refuse(self, conn: Any, head: bytes) -> None:
        """Send the answer to a request that was not read; a client that takes no answer gets none."""
        self._refused += 1
        now = time.monotonic()
        if now >= self._report_at:
            log.warning(
                "refused %d of the latest requests: %d threads are busy and %d requests wait for them",
                self._refused,
                self._threads,
                self._taken - self._threads,
            )
            self._refused, self._report_at = 0, now + REPORT_SECONDS
        try:
            conn.sock.send(refusal(head), socket.MSG_DONTWAIT)
        except OSError:
            log.debug("a client did not wait for its refusal")

    def _linger(self, conn: Any) -> None:
        """Close a connection once its client has closed it: to close it with bytes unread could undo the answer."""
        try:
            conn.sock.setblocking(False)
            conn.sock.shutdown(socket.SHUT_WR)
            if len(self._lingering) < MOST_LINGERING and not _is_at_its_end(conn):
                self.poller.register(conn.sock, EVENT_READ, partial(self._on_lingering, conn))
                self._lingering[conn] = time.monotonic() + LINGER_SECONDS
                return
        except (OSError, ValueError):
            pass  # it is closed already
        self._close(conn)

    def _on_lingering(self, conn: Any, _sock: socket.socket) -> None:
        if _is_at_its_end(conn):
            self._end(conn)

    def _end(self, conn: Any) -> None:
        del self._lingering[conn]
        self.poller.unregister(conn.sock)
        self._close(conn)

    def _close(self, conn: Any) -> None:
        self.nr_conns -= 1
        conn.close()


def refusal(head: bytes) -> bytes:
    """Return the answer to a request that begins with `head`."""
    given = _REQUEST_ID.search(head)
    request_id = given[1].decode("ascii") if given else ""
    if not ACCEPTED.fullmatch(request_id):
        request_id = ids.request_id()
    message = "The server is busy; nothing was done, try again."
    body = json.dumps(envelope(UnavailableError.code, message, request_id, retryable=True)).encode()
    # Spread, so that those that were refused together do not come back together.
    lines = (
        "HTTP/1.1 503 Service Unavailable",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"Retry-After: {random.randint(1, 3)}",
        f"X-Request-ID: {request_id}",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


def _first_bytes(conn: Any) -> bytes | None:
    """Return what has come of the next request, b"" at its client's end; None for nothing yet."""
    read_ahead: bytes = conn.parser.unreader.buf.getvalue() if conn.parser is not None else b""
    if read_ahead:
        return read_ahead
    try:
        seen: bytes = conn.sock.recv(PEEKED_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    except OSError:
        return b""
    return seen


def _is_at_its_end(conn: Any) -> bool:
    """Throw away what has come from a client; returns whether it has closed its side, or sends without an end."""
    conn.drained = getattr(conn, "drained", 0)
    while conn.drained < MOST_DRAINED_BYTES:
        try:
            seen = len(conn.sock.recv(65_536))
        except BlockingIOError:
            return False
        except OSError:
            return True
        if not seen:
            return True
        conn.drained += seen
    return True
