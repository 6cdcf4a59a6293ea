"""Receiver of all deliveries: a process of its own, as cheap as it can be, that notes when each key arrived first.

`python -m benchmarks.receiver` prints its port. POST /… is answered 200, POST /hold/5 after five seconds. A report is a
GET: /_counts, /_times (Unix time of the first arrival by idempotency key), /_clear (forget all).
"""

import asyncio
import json
import time
from typing import cast

import uvloop

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
_OK = _HEAD + b"2\r\n\r\n{}"
_BACKLOG = 4096


class Book:
    """What has arrived."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.times: dict[str, float] = {}
        self.repeats = 0
        self.held = 0
        self.most_held = 0

    def note(self, key: str) -> None:
        """Keep the first arrival of a key, and count the others."""
        if key in self.times:
            self.repeats += 1
        else:
            self.times[key] = time.time()

    def hold(self, by: int) -> None:
        """Count a request that waits for its answer, or one that has got it."""
        self.held += by
        self.most_held = max(self.most_held, self.held)

    def report(self, path: bytes) -> bytes:
        """Answer a GET."""
        if path == b"/_clear":
            self.clear()
        counts = {"arrived": len(self.times), "repeats": self.repeats, "held": self.held, "most_held": self.most_held}
        return json.dumps(self.times if path == b"/_times" else counts).encode()


class _Connection(asyncio.Protocol):
    def __init__(self, book: Book) -> None:
        self._book = book
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end]
            headers = head.lower()
            total = end + 4 + int(_header(headers, b"content-length") or 0)
            if len(self._buffer) < total:
                return
            self._buffer = self._buffer[total:]
            self._answer(head, headers)

    def _answer(self, head: bytes, headers: bytes) -> None:
        method, path, _version = head.split(b"\r\n", 1)[0].split(b" ")
        if method == b"GET":
            body = self._book.report(path)
            self._transport.write(_HEAD + str(len(body)).encode() + b"\r\n\r\n" + body)
            return
        self._book.note(_header(headers, b"idempotency-key").decode())
        if path.startswith(b"/hold/"):
            self._book.hold(1)
            asyncio.get_running_loop().call_later(float(path[6:]), self._release)
        else:
            self._transport.write(_OK)

    def _release(self) -> None:
        self._book.hold(-1)
        self._transport.write(_OK)


def _header(headers: bytes, name: bytes) -> bytes:
    start = headers.find(b"\r\n" + name + b":")
    if start < 0:
        return b""
    start += len(name) + 3
    end = headers.find(b"\r\n", start)
    return headers[start : end if end >= 0 else None].strip()


async def serve() -> None:
    """Listen on a free port of 127.0.0.1 until the process is ended."""
    book = Book()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(book), "127.0.0.1", 0, backlog=_BACKLOG)
    print(f"listens on {server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve())
