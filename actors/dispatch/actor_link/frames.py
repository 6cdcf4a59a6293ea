"""Frames of protocol 1 between a worker and the processes that run actors: length, then a JSON object.

`actor_kit/task_executor_dramatiq/link.py` has the other side.
"""

import json
import re
import struct
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

PROTOCOL = 1
# An outcome with a result and following jobs has at most half of it. Parsing blocks the event loop: 8 MiB for 0.1 s.
MAX_FRAME_BYTES = 8 * 1024 * 1024
_LENGTH = struct.Struct("!I")
# json.dumps and json.loads make more calls of Python functions for each frame.
_to_json = json.JSONEncoder(separators=(",", ":")).encode
_from_json = json.JSONDecoder().raw_decode
_quoted = json.encoder.encode_basestring_ascii
# Begin of an outcome, as the actor kit writes it: its earlier versions send up to 64 MiB, and repeat a refused outcome.
_OUTCOME = re.compile(rb'\{"kind":"(?:DONE|AGAIN|FAILED)","execution":"([\w-]+)","attempt":(\d+),')
_OUTCOME_BYTES = 160


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
    return encode_frame({"kind": kind, **fields})


def encode_frame(frame: Mapping[str, Any]) -> bytes:
    """Return the bytes of a frame, as `encode`."""
    body = _to_json(frame).encode()  # ASCII
    return _LENGTH.pack(len(body)) + body


def encode_about(kind: FrameKind, execution_id: str, attempt: int, more: str = "") -> bytes:
    """Return the bytes of a frame that names a message, and of `more` fields in JSON; quicker than `encode`."""
    body = f'{{"kind":"{kind}","execution":{_quoted(execution_id)},"attempt":{attempt:d}{more}}}'.encode()
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._skipped = 0  # bytes of a frame that are still to come

    def feed(self, data: bytes) -> Iterator[Mapping[str, Any]]:
        """Yield the frames that are complete with these bytes; raises FrameError."""
        buffer = self._buffer
        buffer += data[self._skipped :]
        self._skipped = max(0, self._skipped - len(data))
        begin = 0
        while len(buffer) - begin >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer, begin)
            end = begin + _LENGTH.size + length
            if length > MAX_FRAME_BYTES:
                body = begin + _LENGTH.size
                if len(buffer) < body + _OUTCOME_BYTES:
                    break
                yield _too_large(bytes(buffer[body : body + _OUTCOME_BYTES]), length)
                self._skipped, begin = max(0, end - len(buffer)), min(end, len(buffer))
                continue
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


def _too_large(begin: bytes, length: int) -> Mapping[str, Any]:
    """Return a failure in place of an outcome that is too large; raises FrameError for another frame."""
    bound = f"at most {MAX_FRAME_BYTES} can be sent"
    if (found := _OUTCOME.match(begin)) is None:
        raise FrameError(
            f"a frame has {length} bytes; {bound}: register fewer actors by a HELLO, or store a large result elsewhere"
        )
    message = (
        f"the result and the messages that follow have {length} bytes; {bound}: use a results backend of your own, or "
        "send the messages in the body of the actor"
    )
    error = {"type": "RESULT_TOO_LARGE", "message": message}
    named = {"execution": found[1].decode(), "attempt": int(found[2])}
    return {"kind": FrameKind.FAILED.value, **named, "error": error}


def _decoded(body: bytes) -> Mapping[str, Any]:
    try:
        text = body.decode(errors="surrogatepass").strip()
        frame, end = _from_json(text)
    except (ValueError, RecursionError):
        raise FrameError("a frame is not JSON") from None
    if end != len(text):
        raise FrameError("a frame is more than one JSON value")
    if not isinstance(frame, dict) or not isinstance(frame.get("kind"), str):
        raise FrameError("a frame is an object with the field `kind`")
    return frame
