"""gunicorn worker class: answers malformed HTTP with the API's error envelope."""

import logging
import os
import select
import socket
import threading
import time
from typing import Any

from gunicorn import util
from gunicorn.http import errors as http

from app.kernel import ids
from app.web.http.request_log import count_unread
from app.web.server.arrivals import Head, beginning, read_head
from app.web.server.refusal import refusal
from app.web.server.suspended import SuspendingWorker

log = logging.getLogger(__name__)

LINGER_MS = 2
_NOT_THE_CLIENTS = (http.ConfigurationProblem, http.InvalidResponseHeader, http.InvalidResponseHeaderName)
_STATUS = {http.LimitRequestLine: 414, http.LimitRequestHeaders: 431, http.ExpectationFailed: 417}


class Worker(SuspendingWorker):
    """Worker whose parse errors have the error envelope, and whose threads never wait long for a client."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._counting = threading.Lock()
        self._busy = 0  # threads

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
        self._deadlines.writing(conn.sock, 0)
        try:
            return super().handle(conn) if getattr(conn, "kept", None) is None else self._resume(conn)
        finally:
            self._deadlines.end(conn.sock)

    def murder_pending(self) -> None:
        """Close connections that wait for too long, and enforce the deadlines of clients."""
        super().murder_pending()
        self._deadlines.enforce(time.monotonic())

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


def _has_next_request(conn: Any) -> bool:
    """Wait up to LINGER_MS for the next request on a connection; returns whether its head is complete."""
    if not beginning(conn):
        poller = select.poll()
        poller.register(conn.sock, select.POLLIN)
        if not poller.poll(LINGER_MS):
            return False
    return read_head(conn) is Head.WHOLE
