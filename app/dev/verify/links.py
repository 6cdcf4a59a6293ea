"""Loopback proxies between the processes and PostgreSQL: each link can be cut, stalled or turned into a black hole."""

import asyncio
import contextlib
import threading
from enum import Enum, auto
from typing import Self


class Mode(Enum):
    """What a link does with what comes."""

    PASS = auto()
    CUT = auto()  # connections are closed, new ones refused
    STALL = auto()  # bytes wait, connections stay
    DROP = auto()  # bytes vanish, connections stay: the peer hears nothing, not even a reset


class Link:
    """One way to a server; used from any thread, served by the thread of its Links."""

    def __init__(self, loop: asyncio.AbstractEventLoop, server_port: int) -> None:
        self._loop = loop
        self._server_port = server_port
        self._mode = Mode.PASS
        self._passing = asyncio.Event()
        self._passing.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def listen(self) -> asyncio.Server:
        """Open the port."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        return server

    def set(self, mode: Mode) -> None:
        """Change what the link does, from now on and for the connections that there are."""
        asyncio.run_coroutine_threadsafe(self._set(mode), self._loop).result(10)

    def redirect(self, server_port: int) -> None:
        """Send new connections to another local port; those that there are stay."""
        self._server_port = server_port

    async def _set(self, mode: Mode) -> None:
        # What was swallowed is missing in the middle of a stream: such connections cannot go on.
        if mode is Mode.CUT or self._mode is Mode.DROP:
            self._reset_all()
        self._mode = mode
        if mode is Mode.STALL:
            self._passing.clear()
        else:
            self._passing.set()

    def _reset_all(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._mode is not Mode.CUT:
                with contextlib.suppress(OSError):
                    await self._connect(reader, writer)
        finally:
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        self._writers |= {writer, upstream_writer}
        try:
            await asyncio.gather(self._pump(reader, upstream_writer), self._pump(upstream_reader, writer))
        finally:
            self._writers -= {writer, upstream_writer}
            upstream_writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            await self._passing.wait()
            if self._mode is not Mode.DROP:
                writer.write(data)
                await writer.drain()
        raise ConnectionResetError  # either side left: end the other one too


class Links:
    """A thread with any number of links; a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._servers: list[asyncio.Server] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def to(self, server_port: int) -> Link:
        """Open a link to a local port."""
        link = Link(self._loop, server_port)
        self._servers.append(asyncio.run_coroutine_threadsafe(link.listen(), self._loop).result(10))
        return link

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # an aborted transport closes its socket in the next turn of the loop
