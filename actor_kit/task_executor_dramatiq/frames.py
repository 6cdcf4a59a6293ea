"""Frames of protocol 1: length, then a JSON object; `actors/dispatch/actor_link/frames.py` has the worker's side."""

import json
import os
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

PROTOCOL = 1
MAX_FRAME_BYTES = 8 * 1024 * 1024  # a worker refuses a longer frame
MAX_REASON_CHARACTERS = 300
_LENGTH = struct.Struct("!I")
# json.dumps and json.loads make more calls of Python functions for each frame.
_to_json = json.JSONEncoder(separators=(",", ":")).encode
_from_json = json.JSONDecoder().raw_decode
_quoted = json.encoder.encode_basestring_ascii
MessageKey = tuple[str, int]
"""Execution and attempt."""


def encode(kind: str, **fields: Any) -> bytes:
    """Return the bytes of a frame."""
    body = _to_json({"kind": kind, **fields}).encode()  # ASCII
    return _LENGTH.pack(len(body)) + body


def encode_about(kind: str, key: MessageKey) -> bytes:
    """Return the bytes of a frame that only names a message; quicker than `encode`."""
    body = f'{{"kind":"{kind}","execution":{_quoted(key[0])},"attempt":{key[1]:d}}}'.encode()
    return _LENGTH.pack(len(body)) + body


def encode_outcome(kind: str, key: MessageKey, **fields: Any) -> bytes:
    """Return the bytes of the outcome of a message; an outcome that cannot be sent becomes a FAILED."""
    if not fields:
        return encode_about(kind, key)
    try:
        frame = encode(kind, **named(key), **fields)
    except (TypeError, ValueError, RecursionError) as error:
        # Raised to Dramatiq, it would leave the message without an outcome, and the actor would run again.
        message = f"the result, or a message that follows, is not JSON: {error}"
        return encode("FAILED", **named(key), error={"type": "UNSTORABLE", "message": message[:MAX_REASON_CHARACTERS]})
    if len(frame) <= MAX_FRAME_BYTES:
        return frame
    message = (
        f"the result and the messages that follow have {len(frame)} bytes; at most {MAX_FRAME_BYTES} can be sent: "
        "use a results backend of your own, or send the messages in the body of the actor"
    )
    return encode("FAILED", **named(key), error={"type": "RESULT_TOO_LARGE", "message": message})


def encode_malformed(key: MessageKey, reason: str) -> bytes:
    """Return the bytes of the outcome of a message that cannot be decoded."""
    error = {"type": "dramatiq.errors.DecodeError", "message": reason, "category": "MALFORMED"}
    return encode("FAILED", **named(key), error=error)


def encode_hello(session_id: str, threads: int, prefetch: int, actors: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the bytes of the first frame of this process, which registers its actors."""
    place = {"session": session_id, "host": socket.gethostname(), "pid": os.getpid()}
    return encode("HELLO", protocol=PROTOCOL, **place, threads=threads, prefetch=prefetch, actors=actors)


def key_of(frame: Mapping[str, Any]) -> MessageKey:
    """Return the execution and the attempt of a frame about a message."""
    return frame["execution"], frame["attempt"]


def named(key: MessageKey) -> dict[str, Any]:
    """Return the fields of a frame that name its message."""
    return {"execution": key[0], "attempt": key[1]}


class FrameReader:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the frames that are complete with these bytes."""
        self._buffer += data
        begin = 0
        while len(self._buffer) - begin >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, begin)
            end = begin + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            try:
                frame, _ = _from_json(self._buffer[begin + _LENGTH.size : end].decode(errors="surrogatepass").strip())
            except ValueError:
                raise ValueError("a frame is not JSON") from None
            yield frame
            begin = end
        del self._buffer[:begin]
