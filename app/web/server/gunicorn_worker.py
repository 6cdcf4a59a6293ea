"""gunicorn worker class: sheds load, keeps connections without a thread, and never waits long for a client."""

import logging
import os
import select
import socket
import threading
import time
from functools import partial
from selectors import EVENT_READ
from typing import Any

from gunicorn import util
from gunicorn.http import errors as http

from app.kernel import ids
from app.kernel.function_types import Call
from app.web.http.request_log import count_unread
from app.web.http.suspension import Slots, Streamed, Suspended
from app.web.server.arrivals import Head, beginning, read_head
from app.web.server.guarded_application import Deadlines, GuardedApplication, Kept
from app.web.server.refusal import refusal
from app.web.server.shedding import SheddingWorker

log = logging.getLogger(__name__)

LINGER_MS = 2
REST_SECONDS = 0.05  # for the rest of a body that the application did not read
KEPT = object()
"""Result of handling a request whose connection is kept."""
_NOT_THE_CLIENTS = (http.ConfigurationProblem, http.InvalidResponseHeader, http.InvalidResponseHeaderName)
_STATUS = {http.LimitRequestLine: 414, http.LimitRequestHeaders: 431, http.ExpectationFailed: 417}


class Worker(SheddingWorker):
    """Worker that keeps the connections of suspended requests and resumes each on a thread when its wait ends.

    Only the main thread keeps connections. It closes the connections of disconnected clients, and resumes all requests
    when the process stops. Parse errors have the API's error envelope.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._counting = threading.Lock()
        self._busy = 0  # threads
        self.rest_seconds = REST_SECONDS
        self.deadlines = Deadlines()
        self._suspended: dict[Any, Call] = {}  # connections, and the functions that cancel their waits
        self._streaming: set[Any] = set()  # connections that the sender of streams uses

    def streaming(self) -> int:
        return len(self._streaming)

    def waiting(self) -> int:
        return len(self._suspended)

    def load(self) -> tuple[int, int]:
        """Return the requests, and the connections that neither wait for a result nor receive a stream."""
        busy, connections = super().load()
        return busy, connections - len(self._suspended) - len(self._streaming)

    def load_wsgi(self) -> None:
        super().load_wsgi()
        self.wsgi: Any = GuardedApplication(self.wsgi, self.deadlines)

    def set_slots(self, most: int, most_of_key: int) -> None:
        """Set the number of kept connections, in all and per API key."""
        self.wsgi.slots = Slots(most, most_of_key)

    def handle(self, conn: Any) -> Any:
        """Handle a request, and immediately following requests while at least half of the threads are idle.

        Otherwise the connection returns to the main thread, which gives its next request to a thread.
        """
        with self._counting:
            self._busy += 1
        try:
            kept = self._handle_one(conn)
            while (
                kept is True and self._may_continue() and 2 * self._busy <= self.cfg.threads and _has_next_request(conn)
            ):
                kept = self._handle_one(conn)
        finally:
            with self._counting:
                self._busy -= 1
        return kept

    def _handle_one(self, conn: Any) -> Any:
        # Covers "100 Continue", which gunicorn writes before it calls the application.
        self.deadlines.writing(conn.sock, self.deadlines.write_seconds)
        try:
            return super().handle(conn) if getattr(conn, "kept", None) is None else self._resume(conn)
        finally:
            self.deadlines.end(conn.sock)

    def murder_pending(self) -> None:
        """Close connections that wait for too long, and enforce the deadlines of clients."""
        super().murder_pending()
        self.deadlines.enforce(time.monotonic())

    def _may_continue(self) -> bool:
        # If the master was killed, this process has to end too.
        return bool(self.alive) and os.getppid() == self.ppid

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None:
        """Answer a parse error with the envelope; gunicorn handles other errors."""
        if not isinstance(exc, http.ParseException) or isinstance(exc, _NOT_THE_CLIENTS):
            super().handle_error(req, client, addr, exc)
            return
        status = _STATUS.get(type(exc), 400)
        count_unread(status)
        request_id = ids.request_id()
        log.info("request %s: refused before it was parsed: %s", request_id, type(exc).__name__)
        try:
            util.write_nonblock(client, refusal(status, request_id))
        except OSError:
            log.debug("request %s: the client disconnected before its answer", request_id)

    def handle_request(self, req: Any, conn: Any) -> Any:
        """Answer a request, or store its incomplete answer in the connection."""
        try:
            return super().handle_request(req, conn)
        except Kept as kept:
            req._expected_100_continue = False  # noqa: SLF001 - sent already, and resuming would send it again
            conn.kept, conn.slot, conn.chunked, conn.kept_req = kept.answer, kept.slot, kept.chunked, req
            return True

    def _keepalive_after(self, conn: Any, keepalive: bool) -> Any:
        if getattr(conn, "kept", None) is not None:
            return KEPT
        if not keepalive or not _has_unread_body(conn):
            # No deadline here: on a busy machine it could pass before the client answers "100 Continue".
            return keepalive
        # gunicorn would block a thread for 5 s on a body that the application did not read.
        return bool(conn.parser.finish_body(deadline=time.monotonic() + self.rest_seconds))

    def _resume(self, conn: Any) -> Any:
        """Answer a suspended request whose wait has ended, as gunicorn handles a new request."""
        suspended, conn.kept = conn.kept, None
        conn.sock.setblocking(True)
        self.wsgi.resumed[conn.sock] = suspended
        try:
            return self._keepalive_after(conn, self.handle_request(conn.kept_req, conn))
        except (OSError, StopIteration) as error:
            log.debug("could not send the answer of a resumed request: %s", type(error).__name__)
        except Exception as error:  # noqa: BLE001 - answered and logged, as by gunicorn
            self.handle_error(conn.kept_req, conn.sock, conn.client, error)
        finally:
            self.wsgi.resumed.pop(conn.sock, None)
        return False

    def finish_request(self, conn: Any, future: Any) -> None:
        """Keep the connection of a suspended request or a stream."""
        result = None if future.cancelled() or future.exception() is not None else future.result()
        if result is not KEPT:
            super().finish_request(conn, future)
        elif isinstance(conn.kept, Streamed):
            self._stream(conn, conn.kept)
        else:
            self._suspend(conn, conn.kept)

    def _stream(self, conn: Any, streamed: Streamed) -> None:
        self._streaming.add(conn)
        streamed.sender.open(streamed.asked, conn.sock, partial(self._stream_over, conn), chunked=conn.chunked)
        if not self.alive:
            streamed.sender.end_all()

    def _stream_over(self, conn: Any, is_whole: bool) -> None:
        self.method_queue.defer(self._end_of_stream, conn, is_whole)

    def _end_of_stream(self, conn: Any, is_whole: bool) -> None:
        self._streaming.remove(conn)
        conn.slot.close()
        if is_whole:
            self._linger(conn)
        else:
            self._close(conn)

    def _suspend(self, conn: Any, suspended: Suspended) -> None:
        conn.sock.setblocking(False)
        conn.is_watched = True
        self.poller.register(conn.sock, EVENT_READ, partial(self._on_suspended, conn))
        self._suspended[conn] = suspended.begin(partial(self.method_queue.defer, self._continue, conn))
        if not self.alive:
            self._continue(conn)

    def _on_suspended(self, conn: Any, sock: socket.socket) -> None:
        if conn not in self._suspended:
            return  # resumed in the same round of events
        try:
            is_alive = bool(sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return
        except OSError:
            is_alive = False
        self._unwatch(conn)
        # If alive, the client has sent its next request, which stays in the socket's buffer until the answer is sent.
        if not is_alive:
            self._suspended.pop(conn)()
            conn.slot.close()
            conn.kept.give_up()
            self._close(conn)

    def _unwatch(self, conn: Any) -> None:
        if conn.is_watched:
            conn.is_watched = False
            self.poller.unregister(conn.sock)

    def _continue(self, conn: Any) -> None:
        """Resume a suspended request on a thread; it was admitted before, so it is not refused."""
        give_up = self._suspended.pop(conn, None)
        if give_up is not None:
            give_up()
            conn.slot.close()
            self._unwatch(conn)
            self._submit(conn)

    def _cap_keepalive(self, deadline: float) -> None:
        """End all streams and resume all suspended requests when the worker stops."""
        super()._cap_keepalive(deadline)
        self.wsgi.slots.close()
        for sender in {conn.kept.sender for conn in self._streaming}:
            sender.end_all()
        for conn in tuple(self._suspended):
            self._continue(conn)


def _has_next_request(conn: Any) -> bool:
    """Wait up to LINGER_MS for the next request on a connection; returns whether its head is complete."""
    if not beginning(conn):
        poller = select.poll()
        poller.register(conn.sock, select.POLLIN)
        if not poller.poll(LINGER_MS):
            return False
    return read_head(conn) is Head.WHOLE


def _has_unread_body(conn: Any) -> bool:
    body = conn.parser.mesg.body
    return body.failed or bool(getattr(body.reader, "length", None) or getattr(body.reader, "parser", None))
