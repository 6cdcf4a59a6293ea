"""gunicorn's threaded worker with load shedding: refuses excess requests and never blocks on a client."""

import logging
import socket
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from selectors import EVENT_READ
from typing import Any

from app.kernel.function_types import AnyFunction
from app.web.http.request_log import count_unread
from app.web.server.arrivals import Head, beginning, discard, read_head
from app.web.server.balancing import BalancedWorker
from app.web.server.refusal import busy, refusal, request_id_of

log = logging.getLogger(__name__)

QUEUED_PER_THREAD = 8
PATIENCE_SECONDS = 5.0
LINGER_SECONDS = 2.0  # as long as gunicorn lets a client read its last answer
MAX_LINGERING = 256
HEAD_SECONDS = 10.0  # from its first byte to its end
REFUSED = {Head.TOO_LARGE: 431, Head.MALFORMED: 400}
REPORT_SECONDS = 10.0
# Each path has its own thread, since readiness may wait for the database.
HEALTH = (b"GET /health/live", b"GET /health/ready")
MAX_PROBES = 16


class SheddingWorker(BalancedWorker):
    """Worker that serves one request per thread, queues some more, and answers 503 to further requests at once.

    Only the main thread decides, and it never blocks. A connection gets a thread once the head of its request is
    complete; a refusal is one non-blocking write, and the connection is closed once the client has read it. Liveness
    and readiness have their own threads. At the limit of connections, the oldest without a thread is closed.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.max_queued = QUEUED_PER_THREAD * self.cfg.threads
        self.patience_seconds = PATIENCE_SECONDS  # how long a request waits for a thread
        self._threads: int = self.cfg.threads
        self._taken = 0  # connections that have a thread or wait for one
        self._queued: deque[tuple[float, Any, Future[Any]]] = deque()
        self._arriving: deque[Any] = deque()  # connections with an incomplete head, in order of their timeouts
        self._lingering: dict[Any, float] = {}  # connections to close, and when, in this order
        self._refused = 0
        self._report_at = 0.0

    def init_process(self) -> None:
        """Start the threads of probes, after the fork, and serve until the end."""
        self._probes = {start: ThreadPoolExecutor(1) for start in HEALTH}
        self._probing = dict.fromkeys(HEALTH, 0)
        super().init_process()

    def load(self) -> tuple[int, int]:
        """Return the requests that have a thread or wait for one, and the connections."""
        return self._taken, self.nr_conns

    def enqueue_req(self, conn: Any) -> None:
        """Give a connection to a thread, queue it, or refuse it."""
        conn.init()
        self._take(conn, read_head(conn))

    def _take(self, conn: Any, head: Head) -> None:
        if head is Head.WHOLE:
            self._admit(conn)
        elif head is Head.NOTHING:
            self._await_first_byte(conn)
        elif head is Head.PART:
            conn.timeout = time.monotonic() + HEAD_SECONDS
            self._arriving.append(conn)
            self.poller.register(conn.sock, EVENT_READ, partial(self._on_arriving, conn))
        elif head in REFUSED:
            self._refuse(conn, REFUSED[head])
        else:
            self._linger(conn)

    def _on_arriving(self, conn: Any, _sock: socket.socket) -> None:
        head = read_head(conn)
        if head is not Head.PART:
            self._arriving.remove(conn)
            self.poller.unregister(conn.sock)
            self._take(conn, head)

    def _admit(self, conn: Any) -> None:
        if self._taken < self._threads:
            self._submit(conn)
            return
        head = beginning(conn)
        probe = next((start for start in HEALTH if head.startswith(start)), None)
        if probe is not None and self._probing[probe] < MAX_PROBES:
            self._probing[probe] += 1
            self._run(self._probes[probe], conn, partial(self._probed, probe))
        elif self._taken < self._threads + self.max_queued:
            self._queued.append((time.monotonic() + self.patience_seconds, conn, self._submit(conn)))
        else:
            self._refuse_as_busy(conn)
            self._linger(conn)

    def _submit(self, conn: Any) -> "Future[Any]":
        self._taken += 1
        return self._run(self.tpool, conn, self._left)

    def _run(self, pool: ThreadPoolExecutor, conn: Any, finish: AnyFunction) -> "Future[Any]":
        future = pool.submit(self.handle, conn)
        future.add_done_callback(partial(self.method_queue.defer, finish, conn))
        return future

    def _left(self, conn: Any, future: "Future[Any]") -> None:
        self._taken -= 1
        self.finish_request(conn, future)

    def _probed(self, probe: bytes, conn: Any, future: "Future[Any]") -> None:
        self._probing[probe] -= 1
        self.finish_request(conn, future)

    def finish_request(self, conn: Any, future: "Future[Any]") -> None:
        """Keep a connection for its next request, or close it; gunicorn would block on the client here."""
        if not future.cancelled() and future.exception() is None and future.result():
            super().finish_request(conn, future)
        else:
            self._linger(conn)

    def murder_pending(self) -> None:
        """Close connections that wait for too long; gunicorn calls this at least once a second."""
        super().murder_pending()
        now = time.monotonic()
        self._give_up_queued(now)
        while self._arriving and self._arriving[0].timeout <= now:
            self._refuse(self._pop_oldest(self._arriving), 408)
        while self._lingering:
            conn, until = next(iter(self._lingering.items()))
            if now < until:
                break
            self._end(conn)
        if self.nr_conns >= self.worker_connections:
            self._make_room()

    def _give_up_queued(self, now: float) -> None:
        while self._queued:
            until, conn, future = self._queued[0]
            if not (future.running() or future.done()):
                if now < until:
                    break
                if future.cancel():
                    self._refuse_as_busy(conn)
            self._queued.popleft()

    def _make_room(self) -> None:
        """Close the oldest connection without a thread: at its limit, gunicorn accepts no new connection."""
        # The oldest of all kinds: sparing one kind would leave new connections no time once that kind fills up.
        kinds = [each for each in (self.pending_conns, self._arriving, self.keepalived_conns) if each]
        if kinds:
            self._close(self._pop_oldest(min(kinds, key=_first_timeout)))

    def _pop_oldest(self, waiting: "deque[Any]") -> Any:
        conn = waiting.popleft()
        self.poller.unregister(conn.sock)
        return conn

    def _cap_keepalive(self, deadline: float) -> None:
        """Limit the waits for first bytes and heads when the worker stops."""
        super()._cap_keepalive(deadline)
        for conn in (*self.pending_conns, *self._arriving):
            conn.timeout = min(conn.timeout, deadline)

    def _await_first_byte(self, conn: Any) -> None:
        """Wait for a client's first byte without a thread."""
        conn.timeout = time.monotonic() + self.cfg.keepalive
        self.pending_conns.append(conn)
        self.poller.register(conn.sock, EVENT_READ, partial(self.on_pending_socket_readable, conn))

    def _refuse_as_busy(self, conn: Any) -> None:
        self._refused += 1
        now = time.monotonic()
        if now >= self._report_at:
            log.warning(
                "refused requests with 503: %d; busy threads: %d, requests that wait for a thread: %d",
                self._refused,
                self._threads,
                self._taken - self._threads,
            )
            self._refused, self._report_at = 0, now + REPORT_SECONDS
        count_unread(503)
        _send(conn, busy(beginning(conn)))

    def _refuse(self, conn: Any, status: int) -> None:
        request_id = request_id_of(beginning(conn))
        log.info("request %s: refused before it was parsed: %d", request_id, status)
        count_unread(status)
        _send(conn, refusal(status, request_id))
        self._linger(conn)

    def _linger(self, conn: Any) -> None:
        """Close a connection after its client has: closing it with unread bytes could reset it before the answer."""
        try:
            conn.sock.setblocking(False)
            conn.sock.shutdown(socket.SHUT_WR)
            if len(self._lingering) < MAX_LINGERING and not discard(conn):
                self.poller.register(conn.sock, EVENT_READ, partial(self._on_lingering, conn))
                self._lingering[conn] = time.monotonic() + LINGER_SECONDS
                return
        except (OSError, ValueError):
            pass  # closed already
        self._close(conn)

    def _on_lingering(self, conn: Any, _sock: socket.socket) -> None:
        if discard(conn):
            self._end(conn)

    def _end(self, conn: Any) -> None:
        del self._lingering[conn]
        self.poller.unregister(conn.sock)
        self._close(conn)

    def _close(self, conn: Any) -> None:
        self.nr_conns -= 1
        conn.close()


def _first_timeout(conns: "deque[Any]") -> float:
    timeout: float = conns[0].timeout
    return timeout


def _send(conn: Any, answer: bytes) -> None:
    """Send a refusal in one non-blocking write."""
    try:
        conn.sock.send(answer, socket.MSG_DONTWAIT)
    except OSError:
        log.debug("a client disconnected before its refusal")
