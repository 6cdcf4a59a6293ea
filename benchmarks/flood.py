"""Flood of an HTTP server: requests at a fixed rate, regardless of answers, with concurrent health checks.

`python -m benchmarks.flood PLAN ANSWER` reads a Flood as JSON from a file. It writes the seconds of all answers, by
status, as JSON to another file. The time counts from the begin of the request and includes a new connection.
"""

import asyncio
import json
import sys
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import uvloop

from benchmarks import keepalive
from benchmarks.load import requests_of

_HEALTH_EVERY_SECONDS = 0.05
_LAST_SECONDS = 30.0
"""Maximum wait after the last request for missing answers."""

NO_ANSWER, NO_RETRY_AFTER = "no answer", "503 without Retry-After"
HEALTH = "/health/live", "/health/ready"


@dataclass(frozen=True, slots=True)
class Flood:
    """Target, request and rate per second; each PLACE in the template is replaced by a new text."""

    address: str
    path: str
    key: str
    template: str
    rate: float
    seconds: float


class _Answers:
    """Seconds of each answer by status, and an event for the last answer."""

    def __init__(self, wanted: int) -> None:
        self.seconds = defaultdict[str, list[float]](list)
        self.complete = asyncio.Event()
        self._missing = wanted

    def note(self, status: str, seconds: float) -> None:
        self.seconds[status].append(seconds)
        self._missing -= 1
        if not self._missing:
            self.complete.set()


class _Sent(asyncio.Protocol):
    """A connection for one request at a time; it returns to the list of idle connections while the server keeps it."""

    def __init__(self, idle: list["_Sent"] | None, answers: _Answers) -> None:
        self._idle = idle
        self._answers = answers
        self._buffer = b""
        self._started = 0.0
        self._is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, request: bytes, started: float) -> None:
        """Send a request; its time counts from `started`."""
        self._started, self._is_open, self._buffer = started, True, b""
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or len(self._buffer) < end + 4 + keepalive.content_length(self._buffer[:end]):
            return
        head = self._buffer[:end].lower()
        status = head[9:12].decode()
        self._note(NO_RETRY_AFTER if status == "503" and b"\r\nretry-after:" not in head else status)
        if self._idle is None or b"\r\nconnection: close" in head:
            self.close()
        else:
            self._idle.append(self)

    def connection_lost(self, _error: Exception | None) -> None:
        if self._idle and self in self._idle:
            self._idle.remove(self)
        self._note(NO_ANSWER)

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def _note(self, status: str) -> None:
        if self._is_open:
            self._is_open = False
            self._answers.note(status, time.perf_counter() - self._started)


class _Flooder:
    def __init__(self, flood: Flood) -> None:
        self._flood = flood
        self._host, port = flood.address.split(":")
        self._port = int(port)
        self._idle: list[_Sent] = []
        self._wanted = int(flood.rate * flood.seconds)
        self.answers = _Answers(self._wanted)
        self.health = _Answers(0)
        self.late: list[float] = []
        """Delay of each request after its planned time: the flood's own lateness."""

    async def run(self) -> None:
        """Send each request at its planned time, and wait for the answers."""
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch())
            began = time.perf_counter()
            requests = requests_of(self._flood.path, self._flood.address, self._flood.key, self._flood.template)
            async with asyncio.TaskGroup() as sending:
                for number in range(self._wanted):
                    due = began + number / self._flood.rate
                    if (ahead := due - time.perf_counter()) > 0:
                        await asyncio.sleep(ahead)
                    began_at = time.perf_counter()
                    self.late.append(began_at - due)
                    self._send(sending, next(requests), began_at)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.answers.complete.wait(), _LAST_SECONDS)
            watching.cancel()
        for connection in self._idle:
            connection.close()

    def _send(self, tasks: asyncio.TaskGroup, request: bytes, began: float) -> None:
        if self._idle:
            self._idle.pop().send(request, began)
        else:
            tasks.create_task(self._send_on_new_connection(request, began))

    async def _send_on_new_connection(self, request: bytes, began: float) -> None:
        try:
            connection = await self._connect(self._idle, self.answers)
            connection.send(request, began)
        except OSError:
            self.answers.note(NO_ANSWER, time.perf_counter() - began)

    async def _connect(self, idle: list[_Sent] | None, answers: _Answers) -> _Sent:
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(lambda: _Sent(idle, answers), self._host, self._port))[1]

    async def _watch(self) -> None:
        """Check the health repeatedly, each time over a new connection, as load balancers do."""
        while True:
            for path in HEALTH:
                head, _body = keepalive.request("GET", path, self._flood.address, "", b"")
                connection = await self._connect(None, self.health)
                connection.send(head, time.perf_counter())
            await asyncio.sleep(_HEALTH_EVERY_SECONDS)


async def run(flood: Flood) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of answers by status, for requests and for health checks, and the delays in sending."""
    flooder = _Flooder(flood)
    await flooder.run()
    late = {"requests": flooder.late}
    return {"requests": flooder.answers.seconds, "health": flooder.health.seconds, "late": late}


if __name__ == "__main__":
    found = uvloop.run(run(Flood(**json.loads(Path(sys.argv[1]).read_text()))))
    Path(sys.argv[2]).write_text(json.dumps(found))
