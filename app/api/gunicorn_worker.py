"""gunicorn's threaded worker, with the API's envelope for requests that are not even HTTP."""

import json
import logging
import os
import select
import socket
import threading
from typing import Any

from gunicorn import util
from gunicorn.http import errors as http

from app import ids
from app.api.http.errors import envelope, http_error
from app.api.shedding import SheddingWorker

log = logging.getLogger(__name__)

LINGER_MS = 2
_NOT_THE_CLIENTS = (http.ConfigurationProblem, http.InvalidResponseHeader, http.InvalidResponseHeaderName)
_STATUS = {http.LimitRequestLine: 414, http.LimitRequestHeaders: 431, http.ExpectationFailed: 417}


class _Body:
    """A request's body whose framing may turn out to be broken while it is read.

    gunicorn raises an error of its own then, which looks like one of the application. As an OSError it is treated
    like a client that hung up.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        """Read some of the body."""
        try:
            data: bytes = self._stream.read(None if size < 0 else size)
        except http.ParseException as error:
            raise OSError("the body is malformed") from error
        return data


class Worker(SheddingWorker):
    """Answers what gunicorn itself refuses, before the application sees it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._counting = threading.Lock()
        self._busy = 0  # threads

    def load_wsgi(self) -> None:
        """Load the application, with `_Body` around the body of each request."""
        super().load_wsgi()
        application: Any = self.wsgi

        def guarded(environ: dict[str, Any], start_response: Any) -> Any:
            environ["wsgi.input"] = _Body(environ["wsgi.input"])
            return application(environ, start_response)

        self.wsgi: Any = guarded

    def handle(self, conn: Any) -> Any:
        """Handle a request, and the ones that follow it at once while there are threads enough for others.

        Else the connection goes back to the main thread, and from there to another thread for its next request.
        """
        with self._counting:
            self._busy += 1
        try:
            kept = super().handle(conn)
            while kept is True and self._may_go_on() and 2 * self._busy <= self.cfg.threads and _speaks(conn):
                kept = super().handle(conn)
        finally:
            with self._counting:
                self._busy -= 1
        return kept

    def _may_go_on(self) -> bool:
        # Its master may have been killed: this process has to end too then.
        return bool(self.alive) and os.getppid() == self.ppid

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None:
        """Answer with the envelope; gunicorn itself handles everything that is not the client's fault."""
        if not isinstance(exc, http.ParseException) or isinstance(exc, _NOT_THE_CLIENTS):
            super().handle_error(req, client, addr, exc)
            return
        status = _STATUS.get(type(exc), 400)
        code, message = http_error(status)
        request_id = ids.request_id()
        log.info("request %s: refused before it was parsed: %s", request_id, type(exc).__name__)
        body = json.dumps(envelope(code, message, request_id)).encode()
        head = (
            f"HTTP/1.1 {status} {code}\r\nConnection: close\r\nContent-Type: application/json\r\n"
            f"X-Request-ID: {request_id}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        try:
            util.write_nonblock(client, head.encode() + body)
        except OSError:
            log.debug("request %s: the client did not wait for the answer", request_id)


def _speaks(conn: Any) -> bool:
    """Wait a moment for the next request on a connection."""
    if conn.parser.unreader.buf.getvalue():
        return True
    poller = select.poll()
    poller.register(conn.sock, select.POLLIN)
    return bool(poller.poll(LINGER_MS))
