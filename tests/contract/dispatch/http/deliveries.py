"""Helpers to run the HTTP dispatcher in a test, with a receiver or with a server that sends bytes of the test."""

import asyncio
import socket
from contextlib import asynccontextmanager

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.egress import AddressInfo
from actors.dispatch.http import HttpDispatcher
from actors.dispatch.resolver import Resolver
from schema.states import EndpointType
from tests.contract.dispatch.dispatching import OPEN, Opening, failure, identity, rendered, run


def dispatcher(guard=OPEN, per_host=10):
    return Opening(HttpDispatcher, guard, per_host=per_host)


def spec(url, **fields):
    return rendered(EndpointType.HTTP, {"url": url, **fields})


def send(url, delivery=None, **fields):
    return run(dispatcher(), lambda http: http.send(spec(url, **fields), delivery or identity()))


def fail(url, *, guard=OPEN, **fields):
    return run(dispatcher(guard), lambda http: failure(http, spec(url, **fields)))


@asynccontextmanager
async def server(answer):
    """Serve each connection by `answer(reader, writer, number)`; connections are numbered from 1. Yields the URL."""
    count, handlers = 0, set()

    async def handle(reader, writer):
        nonlocal count
        count += 1
        handlers.add(asyncio.current_task())
        try:
            await answer(reader, writer, count)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()
        for task in handlers:
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


async def read_request(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    return head, await reader.readexactly(length)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Hosts(Resolver):
    """A resolver with fixed addresses, like a hosts file."""

    def __init__(self, *addresses: str) -> None:
        super().__init__()
        self.addresses = addresses
        self.lookups = 0
        self.fault: OSError | None = None

    async def look_up(self, host: str, port: int, family: int = socket.AF_UNSPEC) -> list[AddressInfo]:
        self.lookups += 1
        await asyncio.sleep(0)
        if self.fault is not None:
            raise self.fault
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in self.addresses]


def to_hosts(hosts, guard=OPEN, **changes):
    """Return the opening of a dispatcher with the resolver `hosts`, and changes of its network."""
    return Opening(lambda network: HttpDispatcher(network._replace(resolver=hosts, **changes)), guard)
