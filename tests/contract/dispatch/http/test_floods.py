"""Receivers with endless answers: each attempt ends at a limit, and other deliveries continue."""

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
MAX_SENT = MAX_BYTES + 3 * SOCKET_BYTES


@dataclass
class Flood:
    """An endless answer: a beginning, and a sequence of bytes that repeats for ever."""

    begin: bytes
    endless: bytes
    sent: int = 0
    """Bytes that the kernel accepted on the last connection."""

    async def answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter, __: int) -> None:
        # A fixed size, because the kernel would otherwise buffer megabytes of unread data.
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
    "a body of enormous length": Flood(HEAD + b"Content-Length: 1000000000000000000\r\n\r\n", b"x"),
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
def test_endless_answer_fails_at_a_limit(name: str) -> None:
    async def main(http: Dispatcher) -> Any:
        async with flooding(flood) as target:
            return await failure(http, target)

    template, limit = REFUSED[name]
    flood = dataclasses.replace(template)
    error = run(dispatcher(), main)
    assert (error.type, error.may_have_been_delivered, error.permanent) == ("CONNECTION_ERROR", True, False)
    assert limit in error.message
    assert flood.sent < MAX_SENT


@pytest.mark.parametrize("name", CUT)
def test_endless_body_is_truncated(name: str) -> None:
    async def main(http: Dispatcher) -> Any:
        async with flooding(flood) as target:
            return await http.send(target, identity())

    flood = dataclasses.replace(CUT[name])
    assert run(dispatcher(), main) == {"status_code": 200, "body": "x" * KEPT_BYTES}
    assert flood.sent < MAX_SENT


def test_other_deliveries_succeed_while_many_receivers_flood(receiver: Receiver) -> None:
    """Each kind of flood runs on five connections at a time, until the other deliveries have finished."""
    floods = [*(flood for flood, _ in REFUSED.values()), *CUT.values()]

    async def main(http: Dispatcher) -> int:
        async def attack(flood: Flood) -> None:
            nonlocal attacks
            async with flooding(dataclasses.replace(flood)) as target:
                while not delivered.is_set():
                    await asyncio.gather(*(http.send(target, identity()) for _ in range(5)), return_exceptions=True)
                    attacks += 1

        attacks, delivered = 0, asyncio.Event()
        attackers = [asyncio.create_task(attack(flood)) for flood in floods]
        target = spec(receiver.url("/ok/beside-floods"), timeout_ms=LONG_MS)
        for _ in range(50):
            assert (await http.send(target, identity()))["status_code"] == 200
        while attacks < 2 * len(floods):
            await http.send(target, identity())
        delivered.set()
        await asyncio.gather(*attackers)
        return attacks

    before = psutil.Process().memory_info().rss
    assert run(dispatcher(), main) >= 2 * len(floods)
    growth = psutil.Process().memory_info().rss - before
    assert growth < 5 * len(floods) * MEGABYTE


def test_memory_of_an_attempt_is_freed_when_the_attempt_ends() -> None:
    """Buffers must not be part of reference cycles, because the garbage collector could free large buffers late."""

    async def main(http: Dispatcher) -> None:
        async with flooding(dataclasses.replace(REFUSED["a header line"][0])) as target:
            with suppress(DeliveryError):
                await http.send(target, identity())

    gc.collect()
    gc.disable()
    try:
        run(dispatcher(), main)
        # `type` instead of `isinstance`, because lazy objects of some libraries import modules on `isinstance`.
        assert [kept for kept in gc.get_objects() if issubclass(type(kept), (HttpConnection, AnswerReader))] == []
    finally:
        gc.enable()


def test_limit_holds_for_an_answer_sent_byte_by_byte() -> None:
    """Each byte costs one iteration of the event loop; the number of bytes has the same limit."""

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
