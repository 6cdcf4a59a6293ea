"""Floods do not wait for the server, and count its answers by status."""

import asyncio

from benchmarks import flood
from benchmarks.flood import NO_ANSWER, NO_RETRY_AFTER, Flood
from benchmarks.load import PLACE

ANSWERS = [
    b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 503 X\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n",
    b"",
]


class Server(asyncio.Protocol):
    """Server that answers once all requests have arrived, each with the next answer; health checks get 200 at once."""

    waiting: list["Server"]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"GET /health/"):
            self.answer(ANSWERS[0].replace(b"201", b"200"))
            return
        self.waiting.append(self)
        if len(self.waiting) == len(ANSWERS):
            for server, answer in zip(self.waiting, ANSWERS, strict=True):
                server.answer(answer)

    def answer(self, answer: bytes) -> None:
        assert isinstance(self._transport, asyncio.Transport)
        self._transport.write(answer)
        if not answer:
            self._transport.close()


async def flooded() -> dict[str, dict[str, list[float]]]:
    Server.waiting = []
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server:
        return await flood.run(Flood(f"{host}:{port}", "/jobs", "key", f'{{"key": "{PLACE}"}}', 1000, 0.004))


def test_answers_are_counted_by_status() -> None:
    found = asyncio.run(flooded())
    counts = {status: len(seconds) for status, seconds in found["requests"].items()}
    assert counts == {"201": 1, "503": 1, NO_RETRY_AFTER: 1, NO_ANSWER: 1}
    assert found["health"].keys() == {"200"}
