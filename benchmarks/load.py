"""Cheap load on an HTTP server: a raw protocol on uvloop with kept connections.

`python -m benchmarks.load PLAN ANSWER` reads a Plan as JSON from a file and sends its template repeatedly. It writes
the rate per second and the seconds of each answer as JSON to another file.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import uvloop

from benchmarks import keepalive

PLACE = "@KEY@"
_KEY_LENGTH = 24


@dataclass(frozen=True, slots=True)
class Plan:
    """Target, request and clients; each PLACE in the template is replaced by a new text."""

    address: str
    path: str
    key: str
    template: str
    clients: int
    seconds: float


class _Client(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, requests: Iterator[bytes], until: float) -> None:
        self.seconds: list[float] = []
        self.failure = ""
        self.done = asyncio.get_running_loop().create_future()
        self._requests = requests
        self._until = until
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or len(self._buffer) < end + 4 + keepalive.content_length(self._buffer[:end]):
            return
        self.seconds.append(time.perf_counter() - self._started)
        if not self._buffer.startswith(b"HTTP/1.1 20"):
            self._end(self._buffer[:500].decode(errors="replace"))
        elif time.perf_counter() >= self._until:
            self._end("")
        else:
            self._buffer = b""
            self._send()

    def connection_lost(self, error: Exception | None) -> None:
        self._end(f"connection lost: {error}")

    def _send(self) -> None:
        self._started = time.perf_counter()
        self._transport.write(next(self._requests))

    def _end(self, failure: str) -> None:
        if not self.done.done():
            self.failure = failure
            self.done.set_result(None)
            self._transport.close()


def requests_of(path: str, address: str, key: str, template: str) -> Iterator[bytes]:
    """Yield requests without end, each with new texts at the places of the template."""
    parts = template.split(PLACE)
    run, number = os.urandom(6).hex(), 0
    keys = [b"x" * _KEY_LENGTH] * (len(parts) - 1)
    head, _ = keepalive.request("POST", path, address, key, _filled(parts, keys))
    while True:
        keys = [f"{run}{number + place:012d}".encode() for place in range(len(keys))]
        number += len(keys)
        yield head + _filled(parts, keys)


def _filled(parts: list[str], keys: list[bytes]) -> bytes:
    filled = [parts[0].encode()]
    for key, part in zip(keys, parts[1:], strict=True):
        filled += [key, part.encode()]
    return b"".join(filled)


async def run(plan: Plan) -> dict[str, object]:
    """Send for the planned time; raises RuntimeError with the first answer that is no success."""
    host, port = plan.address.split(":")
    loop, requests = asyncio.get_running_loop(), requests_of(plan.path, plan.address, plan.key, plan.template)
    started = time.perf_counter()
    made = [
        (await loop.create_connection(lambda: _Client(requests, started + plan.seconds), host, int(port)))[1]
        for _ in range(plan.clients)
    ]
    await asyncio.gather(*(client.done for client in made))
    if failures := [client.failure for client in made if client.failure]:
        raise RuntimeError(failures[0])
    took = [second for client in made for second in client.seconds]
    return {"rate": len(took) / (time.perf_counter() - started), "seconds": took}


if __name__ == "__main__":
    # The answer goes to a file, because a pipe may transfer only a part of a long line.
    answer = uvloop.run(run(Plan(**json.loads(Path(sys.argv[1]).read_text()))))
    Path(sys.argv[2]).write_text(json.dumps(answer))
