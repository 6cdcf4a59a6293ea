"""Receivers that never stop: each attempt ends at a limit, and other deliveries go on meanwhile."""

import asyncio
import dataclasses
import gc
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.base import Dispatcher
from actors.dispatch.http1.answer import KEPT_BYTES, MAX_BYTES, AnswerReader
from actors.dispatch.http1.connection import HttpConnection
from app.dev.receiver import Receiver
from app.queue.executions.execution_model import DeliveryError
from tests.contract.dispatch.dispatching import failure, identity, run
from tests.contract.dispatch.http.deliveries import dispatcher, read_request, server, spec

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\n\r\n"
LONG_MS = 150_000
SOCKET_BYTES = 65_536
MEGABYTE = 1_000_000
MOST_SENT = MAX_BYTES + 3 * SOCKET_BYTES


@dataclass
class Flood:
    """What a receiver sends: a beginning, and then the same for ever."""

    begin: bytes
    endless: bytes
    sent: int = 0
    """What the system took of it for the last connection."""

    async def answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter, __: int) -> None:
        # Fixed, because the system would otherwise keep megabytes of it that nobody reads.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        writer.write(self.begin)
        block = self.endless * (16_384 // len(self.endless))
        written, self.sent = len(self.begin), 0
        while True:
            writer.write(block)
            written += len(block)
            await writer.drain()
            await asyncio.sleep(0)  # a transport that is closing lets drain return at once
            self.sent = written


REFUSED = {
    "interim answers": (Flood(b"", INTERIM), "more than 16 interim answers"),
    "interim answers with fields": (Flood(b"", INTERIM[:-2] + b"Link: </x>\r\n\r\n"), "more than 16 interim answers"),
    "a header line": (Flood(HEAD + b"X: ", b"y"), "a head of more than 64 KiB"),
    "header fields": (Flood(HEAD, b"X: y\r\n"), "more than 256 header fields"),
    "a status line": (Flood(b"HTTP/1.1 200 ", b"O"), "a head of more than 64 KiB"),
    "empty lines": (Flood(b"", b"\r\n"), "a head of more than 64 KiB"),
    "a chunk extension": (Flood(CHUNKED + b"1;", b"x"), "longer than 256 KiB"),
    "the size of a chunk": (Flood(CHUNKED, b"0"), "longer than 256 KiB"),
    "trailers": (Flood(CHUNKED + b"0\r\n", b"X: y\r\n"), "more than 256 header fields"),
    "a trailer": (Flood(CHUNKED + b"0\r\nX:", b"y"), "longer than 256 KiB"),
    "zeros": (Flood(b"", b"\0"), "not valid HTTP"),
    "words": (Flood(b"", b"220 hello\r\n"), "not valid HTTP"),
}
CUT = {
    "a body": Flood(HEAD + b"\r\n", b"x"),
    "a body of a length beyond measure": Flood(HEAD + b"Content-Length: 1000000000000000000\r\n\r\n", b"x"),
    "chunks of one byte": Flood(CHUNKED, b"1\r\nx\r\n"),
    "one chunk": Flood(CHUNKED + b"fffffffffffffff\r\n", b"x"),
}


@asynccontextmanager
async def flooding(flood: Flood) -> AsyncIterator[dict[str, Any]]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await read_request(reader)
        await flood.answer(reader, writer, number)

    async with server(answer) as base:
        yield spec(base, timeout_ms=LONG_MS)


@pytest.mark.parametrize("name", REFUSED)
def test_an_answer_that_never_ends_fails_at_a_limit(name: str) -> None:
    async def main(http: Dispatcher) -> Any:
        async with flooding(flood) as target:
            return await failure(http, target)

    template, limit = REFUSED[name]
    flood = dataclasses.replace(template)
    error = run(dispatcher(), main)
    assert (error.type, error.may_have_been_delivered, error.permanent) == ("CONNECTION_ERROR", True, False)
    assert limit in error.message
    assert flood.sent < MOST_SENT


@pytest.mark.parametrize("name", CUT)
def test_a_body_that_never_ends_is_cut(name: str) -> None:
    async def main(http: Dispatcher) -> Any:
        async with flooding(flood) as target:
            return await http.send(target, identity())

    flood = dataclasses.replace(CUT[name])
    assert run(dispatcher(), main) == {"status_code": 200, "body": "x" * KEPT_BYTES}
    assert flood.sent < MOST_SENT


def test_others_are_delivered_while_many_receivers_flood(receiver: Receiver) -> None:
    """Each kind of flood all the time, five connections each; the floods only end once the others are through."""
    floods = [*(flood for flood, _ in REFUSED.values()), *CUT.values()]

    async def main(http: Dispatcher) -> int:
        async def suffer(flood: Flood) -> None:
            nonlocal suffered
            async with flooding(dataclasses.replace(flood)) as target:
                while not delivered.is_set():
                    await asyncio.gather(*(http.send(target, identity()) for _ in range(5)), return_exceptions=True)
                    suffered += 1

        suffered, delivered = 0, asyncio.Event()
        sufferers = [asyncio.create_task(suffer(flood)) for flood in floods]
        target = spec(receiver.url("/ok/beside-floods"), timeout_ms=LONG_MS)
        for _ in range(50):
            assert (await http.send(target, identity()))["status_code"] == 200
        while suffered < 2 * len(floods):
            await http.send(target, identity())
        delivered.set()
        await asyncio.gather(*sufferers)
        return suffered

    before = psutil.Process().memory_info().rss
    assert run(dispatcher(), main) >= 2 * len(floods)
    growth = psutil.Process().memory_info().rss - before
    assert growth < 5 * len(floods) * MEGABYTE


def test_what_an_attempt_took_is_free_when_it_ends() -> None:
    """Nothing waits for the collector of cycles: with large buffers, that could be long."""

    async def main(http: Dispatcher) -> None:
        async with flooding(dataclasses.replace(REFUSED["a header line"][0])) as target:
            with suppress(DeliveryError):
                await http.send(target, identity())

    gc.collect()
    gc.disable()
    try:
        run(dispatcher(), main)
        # By its type: some libraries' lazy objects answer `isinstance` by importing things.
        assert [kept for kept in gc.get_objects() if issubclass(type(kept), (HttpConnection, AnswerReader))] == []
    finally:
        gc.enable()


def test_no_attempt_takes_more_than_its_bytes_however_they_come() -> None:
    """One byte at a time: as many turns of the loop, and the same end."""

    async def main(http: Dispatcher) -> Any:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int) -> None:
            nonlocal sent
            await read_request(reader)
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            writer.write(HEAD)
            while True:
                writer.write(b"a:\r\n"[sent % 4 : sent % 4 + 1])
                sent += 1
                await writer.drain()
                await asyncio.sleep(0)

        async with server(answer) as base:
            return await failure(http, spec(base, timeout_ms=LONG_MS))

    sent = 0
    assert "more than 256 header fields" in run(dispatcher(), main).message
    assert sent < MAX_BYTES
