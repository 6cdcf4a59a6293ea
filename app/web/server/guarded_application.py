"""WSGI wrapper of the Flask application: deadlines for clients, and kept connections."""

import socket
from collections.abc import Iterable
from typing import Any

from app.web.http.slots import Slot, Slots
from app.web.http.suspension import KEPT, SLOT, Streamed, Suspended
from app.web.server.client_deadlines import Answer, Deadlines, RequestBody


class Kept(BaseException):
    """Leaves gunicorn's handling of a request whose answer is incomplete; a BaseException, so gunicorn passes it on."""

    def __init__(self, answer: Suspended | Streamed, slot: Slot, *, chunked: bool) -> None:
        super().__init__()
        self.answer = answer
        self.slot = slot
        self.chunked = chunked


class GuardedApplication:
    """Application as gunicorn calls it: no thread waits long for a client, and suspended requests hold no thread."""

    def __init__(self, application: Any, deadlines: Deadlines) -> None:
        self._application = application
        self._deadlines = deadlines
        self.slots = Slots(0, 0)
        self.resumed: dict[socket.socket, Suspended] = {}  # by socket, until a thread answers

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer a request; raises Kept if the answer is incomplete."""
        sock = environ["gunicorn.socket"]
        self._deadlines.end(sock)  # of "100 Continue", which the client has read
        resumed = self.resumed.pop(sock, None)
        if resumed is not None:
            return Answer(resumed.resume(start_response), sock, self._deadlines)
        environ["wsgi.input"] = RequestBody(environ["wsgi.input"], sock, self._deadlines)
        with Slot(self.slots) as slot:
            environ[SLOT] = slot
            answer = Answer(self._application(environ, start_response), sock, self._deadlines)
            kept = environ.pop(KEPT, None)
            if kept is None:
                return answer
            response = start_response.__self__
            if isinstance(kept, Streamed):
                _write(response, answer)
            raise Kept(kept, slot.moved(), chunked=response.chunked)


def _write(response: Any, answer: Answer) -> None:
    """Write the head and the first part of a stream, within the client's deadline."""
    try:
        for part in answer:
            response.write(part)
    finally:
        answer.close()
