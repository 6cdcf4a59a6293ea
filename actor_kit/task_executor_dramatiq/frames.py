"""Frames of protocol 1: length, then a JSON object; `actors/dispatch/actor_link/frames.py` has the worker's side."""

import json
import struct
from collections.abc import Iterator
from typing import Any

PROTOCOL = 1
_LENGTH = struct.Struct("!I")


def encode(kind: str, **fields: Any) -> bytes:
    """Return the bytes of a frame."""
    body = json.dumps({"kind": kind, **fields}, separators=(",", ":")).encode(errors="surrogatepass")
    return _LENGTH.pack(len(body)) + body


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
            yield json.loads(bytes(self._buffer[begin + _LENGTH.size : end]))
            begin = end
        del self._buffer[:begin]
