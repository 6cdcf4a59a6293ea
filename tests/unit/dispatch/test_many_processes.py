"""A thousand processes with actors on one worker: stand-ins that speak the protocol."""

import asyncio
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.actor import ActorDispatcher
from actors.dispatch.actor_link.frames import FrameKind, FrameReader, encode
from actors.dispatch.actor_link.server import ActorService
from app.catalog.endpoints.actor_endpoints import RegisteredActors
from brokers.sharing.actor_places import ActorProcesses
from tests.contract.dispatch.dispatching import Opening, identity, run
from tests.waiting import eventually

PROCESSES = 1000
SPEC = {"actor": "mail", "queue": "default", "arguments": {}, "timeout_ms": 60_000, "max_lost": 3}


@pytest.fixture
def _many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4096, hard)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Process:
    """A stand-in with one place."""

    def __init__(self, number: int, path: Path) -> None:
        self.messages = 0
        self.welcome = asyncio.Event()
        self._name = f"session {number}"
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(30)  # as the kit: the kernel refuses a full backlog at once
        self._socket.connect(str(path))

    async def run(self) -> None:
        """Answer each message with its success, until the worker closes the connection."""
        reader, writer = await asyncio.open_unix_connection(sock=self._socket)
        writer.write(encode(FrameKind.HELLO, protocol=1, session=self._name, threads=1, actors=[{"name": "mail"}]))
        writer.write(encode(FrameKind.ROOM, queue="default", places=1))
        frames = FrameReader()
        while data := await reader.read(65_536):
            for frame in frames.feed(data):
                if frame["kind"] == FrameKind.WELCOME:
                    self.welcome.set()
                elif frame["kind"] == FrameKind.MESSAGE:
                    self.messages += 1
                    named = {"execution": frame["execution"], "attempt": frame["attempt"]}
                    writer.write(encode(FrameKind.STARTED, **named) + encode(FrameKind.DONE, **named, result=None))
        writer.close()


@pytest.mark.usefixtures("_many_descriptors")
def test_thousand_processes_connect_at_once_and_each_gets_its_message(sockets: Path) -> None:
    def register(_actors: object, _key: object) -> RegisteredActors:
        return RegisteredActors({"mail": "mail"})

    service = ActorService(sockets, "w", ActorProcesses(), register, lambda *_: set(), lambda _: None, lambda: None)

    async def main(dispatcher: ActorDispatcher) -> list[int]:
        path = sockets / "w.sock"
        await asyncio.to_thread(eventually, path.is_socket)
        processes = [Process(number, path) for number in range(PROCESSES)]  # the loop accepts none meanwhile
        running = [asyncio.create_task(each.run()) for each in processes]
        async with asyncio.timeout(60):
            await asyncio.gather(*(each.welcome.wait() for each in processes))
        deliveries = [identity(f"exec_{number}") for number in range(PROCESSES)]
        await asyncio.gather(*(dispatcher.send(SPEC, each) for each in deliveries))
        await dispatcher.close()
        await asyncio.gather(*running)
        return [each.messages for each in processes]

    opening = Opening(lambda network: ActorDispatcher(network._replace(actors=service)))
    assert run(opening, main) == [1] * PROCESSES
