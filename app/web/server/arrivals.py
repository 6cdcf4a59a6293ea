"""Incoming bytes of clients, read without blocking."""

import enum
import io
import socket
from typing import Any

MAX_HEAD_BYTES = 65_536
MAX_DISCARDED_BYTES = 2 * 1024 * 1024
_PIECE_BYTES = 16_384
_END = b"\r\n\r\n"


class Head(enum.Enum):
    """State of the next request's head."""

    NOTHING = enum.auto()
    PART = enum.auto()
    WHOLE = enum.auto()
    TOO_LARGE = enum.auto()
    MALFORMED = enum.auto()
    CLOSED = enum.auto()  # the client disconnected before the end of the head


def read_head(conn: Any) -> Head:
    """Read available bytes of a connection's next request into the buffer of gunicorn's parser."""
    seen = beginning(conn)
    if _is_whole(seen):
        return Head.WHOLE
    try:
        piece = conn.sock.recv(_PIECE_BYTES, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return Head.PART if seen else Head.NOTHING
    except OSError:
        return Head.CLOSED
    if not piece:
        return Head.CLOSED
    buffer: io.BytesIO = conn.parser.unreader.buf
    buffer.seek(0, io.SEEK_END)
    buffer.write(piece)
    return _state(seen + piece)


def beginning(conn: Any) -> bytes:
    """Return the bytes read of the next request."""
    seen: bytes = conn.parser.unreader.buf.getvalue()
    return seen


def discard(conn: Any) -> bool:
    """Discard available bytes; returns true if the client has closed its side or exceeds MAX_DISCARDED_BYTES."""
    conn.discarded = getattr(conn, "discarded", 0)
    while conn.discarded < MAX_DISCARDED_BYTES:
        try:
            seen = len(conn.sock.recv(65_536))
        except BlockingIOError:
            return False
        except OSError:
            return True
        if not seen:
            return True
        conn.discarded += seen
    return True


def _state(seen: bytes) -> Head:
    if _is_whole(seen):
        return Head.WHOLE
    if len(seen) > MAX_HEAD_BYTES:
        return Head.TOO_LARGE
    # A line without a CR: gunicorn would wait forever for the end of the head.
    return Head.PART if seen.count(b"\n") == seen.count(b"\r\n") else Head.MALFORMED


def _is_whole(seen: bytes) -> bool:
    # An empty line may precede a request.
    return seen.find(_END, 2) >= 0
