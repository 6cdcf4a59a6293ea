"""Server for processes with actors: sessions and registrations."""

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.actor_link.frames import FrameKind, FrameReader, encode
from actors.dispatch.actor_link.server import ActorServer, ActorService
from app.catalog.endpoints.actor_endpoints import RegisteredActors
from brokers.sharing.actor_places import ActorProcesses

READ_BYTES = 65_536


@pytest.fixture
def sockets() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="te-"))  # short: a path of a socket is
    yield folder
    shutil.rmtree(folder)


class Registrations:
    """Registrations of actors; the first one lasts until it may go on."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        self.is_running = self.has_overtaken = False

    def register(self, actors: Sequence[Mapping[str, Any]]) -> RegisteredActors:
        self.has_overtaken |= self.is_running
        self.is_running = True
        self.has_begun.set()
        assert self.may_end.wait(30)
        self.is_running = False
        return RegisteredActors({each["name"]: each["name"] for each in actors})


def hello(session: str, *actors: str) -> bytes:
    return encode(FrameKind.HELLO, protocol=1, session=session, actors=[{"name": name} for name in actors])


async def connect(server: ActorServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    await server.open()
    service = server.service
    return await asyncio.open_unix_connection(str(service.directory / f"{service.worker_id}.sock"))


async def next_frame(reader: asyncio.StreamReader) -> Mapping[str, Any]:
    async with asyncio.timeout(30):
        (frame, *_) = FrameReader().feed(await reader.read(READ_BYTES))
    return frame


async def end(server: ActorServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await server.close()
    await reader.read()
    writer.close()
    await writer.wait_closed()


def server_of(sockets: Path, registrations: Registrations) -> ActorServer:
    return ActorServer(ActorService(sockets, "w", ActorProcesses(), registrations.register, lambda: None))


def test_second_hello_waits_for_the_registration_of_the_first(sockets: Path) -> None:
    async def main() -> None:
        registrations = Registrations()
        server = server_of(sockets, registrations)
        reader, writer = await connect(server)
        writer.write(hello("s", "a"))
        await asyncio.to_thread(registrations.has_begun.wait, 30)
        writer.write(hello("s", "a", "b") + encode(FrameKind.ROOM, queue="default", places=1))
        await server.freed.wait()  # by the ROOM
        registrations.may_end.set()
        assert {*(await next_frame(reader))["endpoints"]} == {"a", "b"}
        assert {*server.sessions["s"].places.endpoints} == {"a", "b"}
        assert not registrations.has_overtaken
        await end(server, reader, writer)

    asyncio.run(main())


def test_connection_keeps_its_session(sockets: Path) -> None:
    async def main() -> None:
        registrations = Registrations()
        registrations.may_end.set()
        server = server_of(sockets, registrations)
        reader, writer = await connect(server)
        writer.write(hello("s", "a"))
        assert (await next_frame(reader))["kind"] == FrameKind.WELCOME
        writer.write(hello("other", "a"))
        assert (await next_frame(reader))["kind"] == FrameKind.REFUSED
        assert "other" not in server.sessions
        await end(server, reader, writer)

    asyncio.run(main())
