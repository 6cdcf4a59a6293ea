"""gunicorn's threaded worker, with the API's envelope for requests that are not even HTTP."""

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
from app.web.http.requests_counted import count_unread
from app.web.server.arrivals import Head, beginning, read_head
from app.web.server.client_deadlines import Answer, Body, Deadlines
from app.web.server.refusal import refusal
from app.web.server.suspended import ParkingWorker

log = logging.getLogger(__name__)

LINGER_MS = 2
REST_SECONDS = 0.05  # for what is left of a body that the application did not read
_NOT_THE_CLIENTS = (http.ConfigurationProblem, http.InvalidResponseHeader, http.InvalidResponseHeaderName)
_STATUS = {http.LimitRequestLine: 414, http.LimitRequestHeaders: 431, http.ExpectationFailed: 417}


class Worker(ParkingWorker):
    """Answers what gunicorn itself refuses, before the application sees it; no thread waits for a client for long."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._counting = threading.Lock()
        self._busy = 0  # threads
        self._deadlines = Deadlines()

    def load_wsgi(self) -> None:
        """Load the application, with deadlines for the body of each request and for the answer."""
        super().load_wsgi()
        application: Any = self.wsgi
        deadlines = self._deadlines

        def guarded(environ: dict[str, Any], start_response: Any) -> Any:
            sock = environ["gunicorn.socket"]
            deadlines.end(sock)  # "100 Continue" has been taken, where it was asked for
            environ["wsgi.input"] = Body(environ["wsgi.input"], sock, deadlines)
            return Answer(application(environ, start_response), sock, deadlines)

        self.wsgi: Any = guarded

    def handle(self, conn: Any) -> Any:
        """Handle a request, and the ones that follow it at once while there are threads enough for others.

        Else the connection goes back to the main thread, and from there to another thread for its next request.
        """
        with self._counting:
            self._busy += 1
        try:
            kept = self._handle_one(conn)
            while kept is True and self._may_go_on() and 2 * self._busy <= self.cfg.threads and _speaks(conn):
                kept = self._handle_one(conn)
        finally:
            with self._counting:
                self._busy -= 1
        return kept

    def _handle_one(self, conn: Any) -> Any:
        # gunicorn writes "100 Continue" before it calls the application, which may never come to that.
        self._deadlines.writing(conn.sock, 0)
        try:
            return super().handle(conn) if getattr(conn, "waiting", None) is None else self._answer_parked(conn)
        finally:
            self._deadlines.end(conn.sock)

    def murder_pending(self) -> None:
        """Give up whoever waits for too long, and whoever a thread has waited for too long."""
        super().murder_pending()
        self._deadlines.enforce(time.monotonic())

    def _finish_body(self, conn: Any) -> bool:
        # gunicorn itself gives a client 5 s, of a thread's time, to send what nobody is going to read.
        return bool(conn.parser.finish_body(deadline=time.monotonic() + REST_SECONDS))

    def _may_go_on(self) -> bool:
        # Its master may have been killed: this process has to end too then.
        return bool(self.alive) and os.getppid() == self.ppid

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None:
        """Answer with the envelope; gunicorn itself handles everything that is not the client's fault."""
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
            log.debug("request %s: the client did not wait for the answer", request_id)


def _speaks(conn: Any) -> bool:
    """Wait a moment for the next request on a connection; returns whether its head has come."""
    if not beginning(conn):
        poller = select.poll()
        poller.register(conn.sock, select.POLLIN)
        if not poller.poll(LINGER_MS):
            return False
    return read_head(conn) is Head.WHOLE
