"""A receiver that only notes when each idempotency key arrived: as cheap as it can be, the same for both sides."""

import asyncio
import threading
import time
from typing import cast

import uvloop

_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class _Connection(asyncio.Protocol):
    def __init__(self, arrivals: "Arrivals") -> None:
        self._arrivals = arrivals
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            length = _header(head, b"content-length")
            total = end + 4 + (int(length) if length else 0)
            if len(self._buffer) < total:
                return
            self._buffer = self._buffer[total:]
            self._arrivals.note(_header(head, b"idempotency-key").decode())
            self._transport.write(_OK)


def _header(head: bytes, name: bytes) -> bytes:
    start = head.find(b"\r\n" + name + b":")
    if start < 0:
        return b""
    start += len(name) + 3
    end = head.find(b"\r\n", start)
    return head[start : end if end >= 0 else None].strip()


class Arrivals:
    """Listens on a free port of 127.0.0.1 in a thread of its own."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        self._changed = threading.Condition()
        self._wanted = 0
        self._port = threading.Event()
        threading.Thread(target=lambda: uvloop.run(self._serve()), daemon=True).start()
        self._port.wait()

    async def _serve(self) -> None:
        server = await asyncio.get_running_loop().create_server(lambda: _Connection(self), "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        self._port.set()
        await server.serve_forever()

    def note(self, key: str) -> None:
        """Keep the first arrival of a key, as Unix time."""
        self.times.setdefault(key, time.time())
        if self._wanted and len(self.times) >= self._wanted:
            with self._changed:
                self._changed.notify_all()

    def clear(self) -> None:
        """Forget all."""
        self.times.clear()

    def wait_for(self, count: int, timeout: float = 120.0) -> None:
        """Wait until that many keys have arrived."""
        self._wanted = count
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.times) >= count, timeout):
                raise TimeoutError(f"{len(self.times)} of {count} arrived within {timeout:.0f} s")
        self._wanted = 0

    def rate(self) -> float:
        """Arrivals a second between the first and the last."""
        first, last = min(self.times.values()), max(self.times.values())
        return len(self.times) / (last - first)
