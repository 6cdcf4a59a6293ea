"""Connections to HTTP receivers: reuse, limits, lookups of host names, and the choice of an address."""

import asyncio
import socket
import struct
from contextlib import AsyncExitStack
from typing import Any

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.base import Dispatcher
from actors.dispatch.egress import EgressGuard
from actors.dispatch.http import HttpDispatcher
from actors.dispatch.http1.answer import KEPT_BYTES, AnswerError
from actors.dispatch.http1.connection import HttpConnection, LoopShare
from actors.dispatch.send_progress import Progress
from app.queue.executions.execution_model import DeliveryError
from tests.contract.dispatch.dispatching import Opening, failure, identity, run
from tests.contract.dispatch.http.deliveries import OK, Hosts, dispatcher, read_request, server, spec, to_hosts

BODY = "x" * 8_000_000  # exceeds the socket buffers of both sides


def connections_used(answer: bytes, opening: Opening | None = None) -> list[int]:
    """Deliver twice to a server that keeps its connections open; return the number of the connection of each."""
    used = []

    async def keep_open(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        while True:
            await read_request(reader)
            used.append(number)
            writer.write(answer)

    async def main(http: Dispatcher) -> None:
        async with server(keep_open) as base:
            for _ in range(2):
                assert (await http.send(spec(base), identity()))["body"] == "ok"

    run(opening or dispatcher(), main)
    return used


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"


@pytest.mark.parametrize("answer", [OK, CHUNKED, b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK])
def test_connection_is_reused_after_a_complete_answer(answer: bytes) -> None:
    assert connections_used(answer) == [1, 1]


@pytest.mark.parametrize(
    "answer",
    [
        OK + OK,
        OK + b"x",
        OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
        OK.replace(b"1.1", b"1.0"),
    ],
    ids=["two-answers", "surplus", "close", "1.0"],
)
def test_connection_is_not_reused_after_surplus_data_or_a_close(answer: bytes) -> None:
    assert connections_used(answer) == [1, 2]


def test_connection_is_not_reused_beyond_its_maximum_age() -> None:
    """Otherwise steady traffic would keep a connection for ever, and no change in DNS would be followed."""
    assert connections_used(OK, Opening(HttpDispatcher, max_age_seconds=0.0)) == [1, 2]


def test_long_body_that_ends_with_the_connection_is_complete() -> None:
    """The body is read in several iterations of the event loop; the connection can close before the last of them."""

    async def until_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100_000)

    async def main(http: Dispatcher) -> list[dict[str, Any]]:
        async with server(until_the_end) as base:
            return await asyncio.gather(*(http.send(spec(base, timeout_ms=150_000), identity()) for _ in range(10)))

    assert run(dispatcher(), main) == [{"status_code": 200, "body": "x" * KEPT_BYTES}] * 10


def test_idle_connection_with_unrequested_data_is_closed() -> None:
    """Otherwise the data would be taken for the answer to the next request."""

    async def main(http: Dispatcher) -> list[int]:
        used, closed = [], asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
            await read_request(reader)
            used.append(number)
            writer.write(OK)
            if number == 1:
                await answered.wait()
                writer.write(OK)
                assert await reader.read() == b""
                closed.set()
            await reader.read()

        answered = asyncio.Event()
        async with server(answer) as base:
            await http.send(spec(base), identity())
            answered.set()
            await closed.wait()
            await http.send(spec(base), identity())
        return used

    assert run(dispatcher(), main) == [1, 2]


def test_nothing_is_sent_on_a_connection_with_an_early_answer() -> None:
    async def main() -> bytes:
        client_socket, server_socket = socket.socketpair()
        server_socket.setblocking(False)
        lost, loop = asyncio.Event(), asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: HttpConnection(LoopShare(), lambda _: lost.set()), sock=client_socket
        )
        await loop.sock_sendall(server_socket, OK)
        await lost.wait()
        with pytest.raises(AnswerError, match="before the request was sent"):
            await connection.exchange(b"GET / HTTP/1.1\r\n\r\n", Progress(1000, identity()))
        with server_socket:
            return await loop.sock_recv(server_socket, 100)

    assert asyncio.run(main()) == b""


@pytest.mark.parametrize("hangs_up", [True, False])
def test_answer_before_the_end_of_the_request_is_accepted_and_ends_the_connection(hangs_up: bool) -> None:
    """A receiver can refuse a request without reading its body. The unsent rest must not precede another request."""
    used = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await reader.readuntil(b"\r\n\r\n")
        used.append(number)
        writer.write(OK.replace(b"200 OK", b"413 Too Large"))
        if not hangs_up:
            await done.wait()

    done = asyncio.Event()

    async def main(http: Dispatcher) -> list[DeliveryError]:
        async with server(refuse) as base:
            target = spec(base, body_template=BODY, timeout_ms=150_000)
            errors = [await failure(http, target) for _ in range(2)]
            done.set()
            return errors

    for error in run(dispatcher(), main):
        assert (error.type, error.extra) == ("HTTP_ERROR", {"status_code": 413, "body": "ok"})
    assert used == [1, 2]


@pytest.mark.parametrize(
    ("begin", "message"),
    [
        (b"", "the connection broke: Connection reset by peer"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n", "the connection broke: Connection reset by peer"),
        (OK[:-1], "in the middle of its answer"),
    ],
)
def test_reset_connection_may_have_delivered(begin: bytes, message: str) -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int) -> None:
        await read_request(reader)
        writer.write(begin)
        await writer.drain()
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    async def main(http: Dispatcher) -> DeliveryError:
        async with server(reset) as base:
            return await failure(http, spec(base))

    error = run(dispatcher(), main)
    assert (error.type, error.may_have_been_delivered) == ("CONNECTION_ERROR", True)
    assert message in error.message


def test_connections_idle_for_longest_are_closed_at_the_limit() -> None:
    """Five targets with a limit of three connections."""

    async def main(http: Dispatcher) -> list[bool]:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, closed: asyncio.Event) -> None:
            await read_request(reader)
            writer.write(OK)
            await reader.read()
            closed.set()

        closed = [asyncio.Event() for _ in range(5)]
        async with AsyncExitStack() as stack:
            for event in closed:
                base = await stack.enter_async_context(server(lambda r, w, _, event=event: answer(r, w, event)))
                await http.send(spec(base), identity())
            for event in closed[:2]:
                await event.wait()
            return [event.is_set() for event in closed]

    assert run(Opening(HttpDispatcher, connections=3), main) == [True, True, False, False, False]


async def answer_ok(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int) -> None:
    await read_request(reader)
    writer.write(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))


def test_next_address_is_tried_after_a_refused_connection() -> None:
    async def main(http: Dispatcher) -> Any:
        async with server(answer_ok) as base:
            return await http.send(spec(base.replace("127.0.0.1", "two.example")), identity())

    assert run(to_hosts(Hosts("127.0.0.2", "127.0.0.1")), main)["status_code"] == 200


def test_only_permitted_addresses_of_a_host_name_are_used() -> None:
    async def main(http: Dispatcher) -> Any:
        async with server(answer_ok) as base:
            return await http.send(spec(base.replace("127.0.0.1", "two.example")), identity())

    hosts = Hosts("127.0.0.1", "127.0.0.3")
    assert run(to_hosts(hosts, EgressGuard.from_settings("default", [], ["127.0.0.3"])), main)["status_code"] == 200
    with pytest.raises(DeliveryError, match="egress") as caught:
        run(to_hosts(hosts, EgressGuard.from_settings("default", [], ["127.0.0.0/8"])), main)
    assert caught.value.permanent


def test_successful_lookup_is_cached() -> None:
    async def main(http: Dispatcher) -> None:
        async with server(answer_ok) as base:
            target = spec(base.replace("127.0.0.1", "one.example"))
            await http.send(target, identity())
            await asyncio.gather(*(http.send(target, identity()) for _ in range(5)))

    hosts = Hosts("127.0.0.1")
    run(to_hosts(hosts), main)
    assert hosts.lookups == 1


def test_failed_lookup_is_repeated() -> None:
    async def main(http: Dispatcher) -> None:
        async with server(answer_ok) as base:
            target = spec(base.replace("127.0.0.1", "late.example"))
            hosts.fault = OSError("it has no address")
            error = await failure(http, target)
            assert error.message == "the host name late.example cannot be resolved: it has no address"
            hosts.fault = None
            await http.send(target, identity())

    hosts = Hosts("127.0.0.1")
    run(to_hosts(hosts), main)
    assert hosts.lookups == 2
