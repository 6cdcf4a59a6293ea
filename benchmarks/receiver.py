"""Receiver of all deliveries: a cheap process of its own that records the first arrival of each key.

`python -m benchmarks.receiver 20` prints its ports, the first and 20 more; clients treat each port as a separate host.
POST /… is answered 200 at once, POST /hold/5/… after five seconds, and POST /hang/… never. Reports are GETs:
/_counts, /_times (Unix time of the first arrival by idempotency key), /_arrivals/… (Unix times of all requests to a
path), /_open (open requests by path, now and at most), /_clear (delete all records).
"""

import asyncio
import json
import sys
import time
from collections import Counter, defaultdict
from typing import cast

import uvloop

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
_OK = _HEAD + b"2\r\n\r\n{}"
_BACKLOG = 4096


class Book:
    """Records of all arrivals."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Delete all records."""
        self.times: dict[str, float] = {}
        self.arrivals = defaultdict[str, list[float]](list)
        self.repeats = 0
        self.open = Counter[str]()
        self.most_open = Counter[str]()
        self.held = 0
        self.most_held = 0

    def note(self, path: str, key: str) -> None:
        """Record the arrival of a request, and the first arrival of its key."""
        now = time.time()
        self.arrivals[path].append(now)
        if self.times.setdefault(key, now) != now:
            self.repeats += 1

    def hold(self, path: str, by: int) -> None:
        """Add `by` (1 or -1) to the number of requests that wait for their answer."""
        self.held += by
        self.most_held = max(self.most_held, self.held)
        self.open[path] += by
        self.most_open[path] = max(self.most_open[path], self.open[path])

    def report(self, path: str) -> object:
        """Return the answer to a GET."""
        if path == "/_clear":
            self.clear()
        if path == "/_times":
            return self.times
        if path == "/_open":
            return {each: {"now": self.open[each], "most": most} for each, most in self.most_open.items()}
        if path.startswith("/_arrivals/"):
            return self.arrivals.get(path.removeprefix("/_arrivals"), [])
        return {"arrived": len(self.times), "repeats": self.repeats, "held": self.held, "most_held": self.most_held}


class _Connection(asyncio.Protocol):
    def __init__(self, book: Book) -> None:
        self._book = book
        self._buffer = b""
        self._held: str | None = None

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

    def connection_lost(self, _error: Exception | None) -> None:
        self._end_hold()

    def _answer(self, head: bytes, headers: bytes) -> None:
        method, target, _version = head.split(b"\r\n", 1)[0].split(b" ")
        path = target.decode()
        if method == b"GET":
            body = json.dumps(self._book.report(path)).encode()
            self._transport.write(_HEAD + str(len(body)).encode() + b"\r\n\r\n" + body)
            return
        self._book.note(path, _header(headers, b"idempotency-key").decode())
        if path.startswith(("/hold/", "/hang/")):
            self._held = path
            self._book.hold(path, 1)
        if path.startswith("/hold/"):
            asyncio.get_running_loop().call_later(float(path.split("/")[2]), self._release)
        elif self._held is None:
            self._transport.write(_OK)

    def _release(self) -> None:
        self._end_hold()
        self._transport.write(_OK)

    def _end_hold(self) -> None:
        """Count the held request as finished: it was answered, or its connection has ended."""
        if self._held is not None:
            self._book.hold(self._held, -1)
            self._held = None


def _header(headers: bytes, name: bytes) -> bytes:
    start = headers.find(b"\r\n" + name + b":")
    if start < 0:
        return b""
    start += len(name) + 3
    end = headers.find(b"\r\n", start)
    return headers[start : end if end >= 0 else None].strip()


async def serve(more: int) -> None:
    """Listen on free ports of 127.0.0.1 until the process is ended."""
    book = Book()
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(lambda: _Connection(book), "127.0.0.1", 0, backlog=_BACKLOG) for _ in range(1 + more)
    ]
    print("listens on", *(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
