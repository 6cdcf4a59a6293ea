"""WSGI wrapper of the Flask application: deadlines for clients that send and read, and kept connections."""

import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any

from gunicorn.http import errors as http
from werkzeug.exceptions import RequestTimeout

from app.kernel.function_types import Clock
from app.web.http.suspension import KEPT, SLOTS, Slots, Streamed, Suspended

READ_SECONDS = 10.0  # for each piece of a body
PIECE_BYTES = 65_536
WRITE_SECONDS = 5.0  # for an answer, plus its size divided by this rate
WRITE_BYTES_PER_SECOND = 65_536
CHECK_SECONDS = 0.5


class Deadlines:
    """Deadlines by socket; shuts down a socket past its deadline, which wakes its thread.

    A thread only records its deadline, and the main thread checks all deadlines periodically. A timeout of the socket
    would restart with each byte and cost system calls.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.clock = clock
        self.write_seconds = WRITE_SECONDS
        self._until: dict[socket.socket, tuple[float, int]] = {}
        self._check_at = 0.0

    def reading(self, sock: socket.socket) -> None:
        """Begin a wait for the client to send."""
        self._until[sock] = (self.clock() + READ_SECONDS, socket.SHUT_RD)

    def writing(self, sock: socket.socket, seconds: float) -> None:
        """Begin a wait for the client to read."""
        self._until[sock] = (self.clock() + seconds, socket.SHUT_RDWR)

    def end(self, sock: socket.socket) -> bool:
        """End a wait; returns whether it met its deadline."""
        return self._until.pop(sock, None) is not None

    def enforce(self, now: float) -> None:
        """Shut down the sockets past their deadline."""
        if now < self._check_at:
            return
        self._check_at = now + CHECK_SECONDS
        for sock, (until, direction) in self._until.copy().items():
            if until < now and self.end(sock):
                with suppress(OSError):  # the client has disconnected
                    sock.shutdown(direction)


class RequestBody:
    """Request body with a deadline for each piece.

    For a body with malformed framing, gunicorn raises an error that looks like an error of the application. As an
    OSError it is treated like a disconnected client.
    """

    def __init__(self, stream: Any, sock: socket.socket, deadlines: Deadlines) -> None:
        self._stream = stream
        self._sock = sock
        self._deadlines = deadlines

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes of the body, or all of it; raises RequestTimeout."""
        pieces = []
        while size:
            wanted = PIECE_BYTES if size < 0 else min(size, PIECE_BYTES)
            piece = self._read_piece(wanted)
            pieces.append(piece)
            if len(piece) < wanted:
                break
            size -= wanted if size > 0 else 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _read_piece(self, size: int) -> bytes:
        self._deadlines.reading(self._sock)
        try:
            data: bytes = self._stream.read(size)
        except http.ParseException as error:
            raise OSError("the body is malformed") from error
        finally:
            in_time = self._deadlines.end(self._sock)
        if not in_time:
            self._stream.failed = True  # so that gunicorn does not parse late bytes of the body as a request
            raise RequestTimeout
        return data


class Answer:
    """Parts of an answer, with a deadline for the client to read; the time to make the parts does not count."""

    def __init__(self, parts: Iterable[bytes], sock: socket.socket, deadlines: Deadlines) -> None:
        self._parts = parts
        self._sock = sock
        self._deadlines = deadlines

    def __iter__(self) -> Iterator[bytes]:
        left = self._deadlines.write_seconds
        for part in self._parts:
            left += len(part) / WRITE_BYTES_PER_SECOND
            begun_at = self._deadlines.clock()
            self._deadlines.writing(self._sock, left)
            yield part
            self._deadlines.end(self._sock)
            left -= self._deadlines.clock() - begun_at
        # gunicorn still writes the end of the answer, or the head if there are no parts, before it calls `close`.
        self._deadlines.writing(self._sock, left)

    def close(self) -> None:
        self._deadlines.end(self._sock)
        close = getattr(self._parts, "close", None)
        if close is not None:
            close()


class Kept(BaseException):
    """Leaves gunicorn's handling of a request whose answer is incomplete; a BaseException, so gunicorn passes it on."""

    def __init__(self, answer: Suspended | Streamed, slot: ExitStack, *, chunked: bool) -> None:
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
        with ExitStack() as slot:
            environ[SLOTS] = self.slots, slot
            answer = Answer(self._application(environ, start_response), sock, self._deadlines)
            kept = environ.pop(KEPT, None)
            if kept is None:
                return answer
            response = start_response.__self__
            if isinstance(kept, Streamed):
                with closing(answer):  # the head and the first part, within the client's deadline
                    for part in answer:
                        response.write(part)
            raise Kept(kept, slot.pop_all(), chunked=response.chunked)
