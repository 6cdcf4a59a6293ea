"""Sockets of the HTTP client: the limit of open sockets, and connections to several addresses."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.base import Dispatcher
from actors.dispatch.connector import ADDRESSES_AT_ONCE
from actors.dispatch.egress import AddressInfo, EgressGuard
from app.queue.executions.execution_model import DeliveryError
from tests.contract.dispatch.dispatching import failure, identity, run
from tests.contract.dispatch.http.deliveries import OK, Hosts, read_request, server, spec, to_hosts


class BlockedLookup(Hosts):
    """A resolver that fails its lookups once `may_end` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.may_end = asyncio.Event()

    async def look_up(self, host: str, port: int, family: int = socket.AF_UNSPEC) -> list[AddressInfo]:
        await self.may_end.wait()
        raise OSError("it has no address")


def test_idle_connection_is_closed_for_a_new_connection() -> None:
    hosts = BlockedLookup()

    async def main(http: Dispatcher) -> DeliveryError:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int) -> None:
            await read_request(reader)
            writer.write(OK)
            await reader.read()
            hosts.may_end.set()

        async with server(answer) as base:
            await http.send(spec(base), identity())
            return await failure(http, spec("http://slow.example", timeout_ms=2000))

    assert run(replace(to_hosts(hosts), connections=1), main).type == "CONNECTION_ERROR"


class CountingGuard(EgressGuard):
    """An egress guard that counts the sockets that it opens."""

    opened = 0

    def open_socket(self, info: AddressInfo) -> socket.socket:
        self.opened += 1
        return super().open_socket(info)


@contextmanager
def deaf_port() -> Iterator[int]:
    """Listen on a port with a full queue of connections, so that connections neither succeed nor fail."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("0.0.0.0", 0))  # every address of the loopback network
        listener.listen(0)
        port = listener.getsockname()[1]
        for _ in range(3):
            filling = stack.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex(("127.0.0.1", port))
        yield port


def test_host_name_with_many_addresses_opens_few_sockets() -> None:
    guard = CountingGuard(public_only=False, allow=[], deny=[])
    hosts = Hosts(*(f"127.0.0.{number}" for number in range(2, 40)))
    opening = to_hosts(hosts, guard, next_address_seconds=0.001)
    with deaf_port() as port:
        error = run(opening, lambda http: failure(http, spec(f"http://many.example:{port}", timeout_ms=500)))
    assert (error.type, error.may_have_been_delivered) == ("TIMEOUT", False)
    assert guard.opened <= ADDRESSES_AT_ONCE


def test_every_address_of_a_host_name_is_tried() -> None:
    async def answer_ok(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int) -> None:
        await read_request(reader)
        writer.write(OK)

    async def main(http: Dispatcher) -> Any:
        async with server(answer_ok) as base:
            return await http.send(spec(base.replace("127.0.0.1", "nine.example")), identity())

    hosts = Hosts(*(f"127.0.0.{number}" for number in range(2, 10)), "127.0.0.1")
    assert run(to_hosts(hosts), main)["status_code"] == 200


def test_forbidden_last_address_does_not_make_the_error_permanent() -> None:
    """The other addresses, which refused the connection, may accept a connection at the next attempt."""
    hosts = Hosts(*(f"127.0.0.{number}" for number in range(2, 6)), "127.0.1.1")
    guard = EgressGuard.from_settings("default", [], ["127.0.1.1"])
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://five.example:{unused.getsockname()[1]}"
        assert not run(to_hosts(hosts, guard), lambda http: failure(http, spec(url))).permanent
