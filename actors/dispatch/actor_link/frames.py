"""Frames of protocol 1 between a worker and the processes that run actors: length, then a JSON object.

`actor_kit/task_executor_dramatiq/link.py` has the other side.
"""

import json
import struct
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

PROTOCOL = 1
# An outcome with a result and following jobs has at most half of it. Parsing blocks the event loop: 8 MiB for 0.1 s.
MAX_FRAME_BYTES = 8 * 1024 * 1024
_LENGTH = struct.Struct("!I")


class FrameKind(StrEnum):
    """FrameKind of a frame, its field `kind`."""

    # Sent by the process.
    KEY = "KEY"  # key; the first frame by TLS
    HELLO = "HELLO"  # protocol, session, host, pid, threads, prefetch, actors; repeated after each new actor
    ROOM = "ROOM"  # queue, places
    STARTED = "STARTED"  # execution, attempt
    DONE = "DONE"  # execution, attempt, result, then
    AGAIN = "AGAIN"  # execution, attempt, delay_ms, error, then
    FAILED = "FAILED"  # execution, attempt, error, then
    BACK = "BACK"  # execution, attempt
    # Sent by the worker.
    WELCOME = "WELCOME"  # protocol, worker, endpoints, refused, sessions
    REFUSED = "REFUSED"  # reason; the connection ends
    MESSAGE = "MESSAGE"  # execution, attempt, actor, queue, input, ...
    DROP = "DROP"  # execution, attempt: answered by BACK unless the message has started
    ABORT = "ABORT"  # execution, attempt: interrupts the actor
    WRITTEN = "WRITTEN"  # execution, attempt, is_written
    # Sent by either side.
    DRAIN = "DRAIN"  # no further messages


class FrameError(Exception):
    """The peer does not follow the protocol; the connection ends."""


def encode(kind: FrameKind, **fields: Any) -> bytes:
    """Return the bytes of a frame."""
    body = json.dumps({"kind": kind.value, **fields}, separators=(",", ":")).encode(errors="surrogatepass")
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Mapping[str, Any]]:
        """Yield the frames that are complete with these bytes; raises FrameError."""
        buffer = self._buffer
        buffer += data
        begin = 0
        while len(buffer) - begin >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer, begin)
            if length > MAX_FRAME_BYTES:
                raise FrameError(
                    f"a frame has {length} bytes; at most {MAX_FRAME_BYTES} are allowed: let the actor store a large "
                    "result elsewhere, or enqueue fewer messages after it, or install the matching "
                    "task-executor-dramatiq, which fails such a message by itself"
                )
            end = begin + _LENGTH.size + length
            if len(buffer) < end:
                break
            yield _decoded(bytes(buffer[begin + _LENGTH.size : end]))
            begin = end
        del buffer[:begin]


def first_frame(data: bytes, max_bytes: int) -> tuple[Mapping[str, Any], bytes] | None:
    """Return the first frame and the bytes behind it, or None if it is incomplete; raises FrameError."""
    if len(data) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(data)
    if length > max_bytes:
        raise FrameError(f"the first frame has {length} bytes; at most {max_bytes} are allowed")
    end = _LENGTH.size + length
    return None if len(data) < end else (_decoded(data[_LENGTH.size : end]), data[end:])


def _decoded(body: bytes) -> Mapping[str, Any]:
    try:
        frame = json.loads(body)
    except (ValueError, RecursionError):
        raise FrameError("a frame is not JSON") from None
    if not isinstance(frame, dict) or not isinstance(frame.get("kind"), str):
        raise FrameError("a frame is an object with the field `kind`")
    return frame
