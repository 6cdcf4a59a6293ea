"""Deadlines of threads that wait for a client: until it has sent more of a body, or has taken an answer."""

import contextlib
import socket
import time
from collections.abc import Iterable, Iterator
from typing import Any

from gunicorn.http import errors as http
from werkzeug.exceptions import RequestTimeout

READ_SECONDS = 10.0  # for each piece of a body
PIECE_BYTES = 65_536
WRITE_SECONDS = 5.0  # for each part of an answer, and what its size takes at this rate
WRITE_BYTES_PER_SECOND = 65_536
LOOK_SECONDS = 0.5


class Deadlines:
    """Ends the waits that take too long, by shutting the socket, which wakes its thread.

    A thread only notes until when it waits, and the main thread looks now and again: a timeout of the socket would
    start anew with each byte, and would cost system calls.
    """

    def __init__(self) -> None:
        self._until: dict[socket.socket, tuple[float, int]] = {}
        self._look_at = 0.0

    def reading(self, sock: socket.socket) -> None:
        """Begin to wait for a client that sends."""
        self._until[sock] = (time.monotonic() + READ_SECONDS, socket.SHUT_RD)

    def writing(self, sock: socket.socket, size: int) -> None:
        """Begin to wait for a client that takes so many bytes of an answer."""
        self._until[sock] = (time.monotonic() + WRITE_SECONDS + size / WRITE_BYTES_PER_SECOND, socket.SHUT_RDWR)

    def end(self, sock: socket.socket) -> bool:
        """End a wait; returns whether it was still within its time."""
        return self._until.pop(sock, None) is not None

    def enforce(self, now: float) -> None:
        """Shut the sockets of waits that are over their time."""
        if now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        for sock, (until, direction) in self._until.copy().items():
            if until < now and self.end(sock):
                with contextlib.suppress(OSError):  # of a client that has gone
                    sock.shutdown(direction)


class Body:
    """A request's body that is waited for with a deadline, and whose framing may turn out to be broken.

    gunicorn raises an error of its own then, which looks like one of the application. As an OSError it is treated
    like a client that hung up.
    """

    def __init__(self, stream: Any, sock: socket.socket, deadlines: Deadlines) -> None:
        self._stream = stream
        self._sock = sock
        self._deadlines = deadlines

    def read(self, size: int = -1) -> bytes:
        """Read some of the body, as much as one piece may have; raises RequestTimeout."""
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
            self._stream.failed = True  # so gunicorn does not take the rest, should it still come, for a request
            raise RequestTimeout
        return data


class Answer:
    """The parts of an answer, each of which the client has to take in time."""

    def __init__(self, parts: Iterable[bytes], sock: socket.socket, deadlines: Deadlines) -> None:
        self._parts = parts
        self._sock = sock
        self._deadlines = deadlines

    def __iter__(self) -> Iterator[bytes]:
        for part in self._parts:
            self._deadlines.writing(self._sock, len(part))
            yield part
            self._deadlines.end(self._sock)
        # The end is still to come, and the head too of an answer that has no parts; `close` follows it.
        self._deadlines.writing(self._sock, 0)

    def close(self) -> None:
        """Release what the application holds for the answer."""
        self._deadlines.end(self._sock)
        close = getattr(self._parts, "close", None)
        if close is not None:
            close()
