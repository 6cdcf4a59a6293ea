"""What comes from a client, taken in without waiting for more of it."""

import enum
import io
import socket
from typing import Any

MOST_HEAD_BYTES = 65_536
MOST_THROWN_AWAY_BYTES = 2 * 1024 * 1024
_PIECE_BYTES = 16_384
_END = b"\r\n\r\n"


class Head(enum.Enum):
    """How much of the next request's head has come."""

    NOTHING = enum.auto()
    PART = enum.auto()
    WHOLE = enum.auto()
    TOO_LARGE = enum.auto()
    MALFORMED = enum.auto()
    CLOSED = enum.auto()  # by the client, before it was whole


def read_head(conn: Any) -> Head:
    """Take in some of the next request of a connection, where gunicorn's parser finds it."""
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
    """Return what was taken in of the next request."""
    seen: bytes = conn.parser.unreader.buf.getvalue()
    return seen


def throw_away(conn: Any) -> bool:
    """Throw away what has come from a client; returns whether it has closed its side, or sends without an end."""
    conn.thrown_away = getattr(conn, "thrown_away", 0)
    while conn.thrown_away < MOST_THROWN_AWAY_BYTES:
        try:
            seen = len(conn.sock.recv(65_536))
        except BlockingIOError:
            return False
        except OSError:
            return True
        if not seen:
            return True
        conn.thrown_away += seen
    return True


def _state(seen: bytes) -> Head:
    if _is_whole(seen):
        return Head.WHOLE
    if len(seen) > MOST_HEAD_BYTES:
        return Head.TOO_LARGE
    # With a line that ends without a CR it would never end.
    return Head.PART if seen.count(b"\n") == seen.count(b"\r\n") else Head.MALFORMED


def _is_whole(seen: bytes) -> bool:
    # An empty line may precede a request.
    return seen.find(_END, 2) >= 0
