"""TCP proxy on the loopback address that can cut, stall, redirect or discard traffic."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from enum import Enum, auto
from typing import Self, TypeVar
from urllib.parse import urlsplit, urlunsplit

_CHUNK_BYTES = 65_536
_BACKLOG = 512
_CALL_SECONDS = 10.0

T = TypeVar("T")
Edit = Callable[[bytes], Awaitable[bytes]]


class Mode(Enum):
    """Treatment of connections and bytes."""

    PASS = auto()
    CUT = auto()  # connections are closed, new ones refused
    STALL = auto()  # bytes wait, connections stay
    DROP = auto()  # bytes vanish, connections stay: the peer hears nothing, not even a reset


class Passage:
    """Connection through the proxy; subclasses inspect or change its traffic.

    `request` and `answer` receive bytes and return the bytes to forward. They may wait, or raise ConnectionError to
    close the connection.
    """

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self._client = client

    async def request(self, data: bytes) -> bytes:
        """Return the bytes to forward from the client to the server."""
        return data

    async def answer(self, data: bytes) -> bytes:
        """Return the bytes to forward from the server to the client."""
        return data

    def tell(self, data: bytes) -> None:
        """Send the client bytes that are not the server's."""
        self._client.write(data)


class Proxy:
    """Port in front of a local server; a context manager for use outside the proxy's own thread."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._mode = Mode.PASS
        self._loop = asyncio.new_event_loop()
        self._passing = asyncio.Event()
        self._passing.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._in_loop(asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=_BACKLOG))
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_exception: object) -> None:
        self._in_loop(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def passage(self, client: asyncio.StreamWriter) -> Passage:
        """Return the passage of a new connection; runs in the thread of the proxy."""
        return Passage(client)

    def url(self, server_url: str) -> str:
        """Return the server's URL with the proxy's address."""
        parts = urlsplit(server_url)
        login, at, _address = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{login}{at}127.0.0.1:{self.port}"))

    def set(self, mode: Mode) -> None:
        """Change the mode for new and existing connections."""
        self._in_loop(self._set(mode))

    def redirect(self, server_port: int) -> None:
        """Send new connections to another local port; existing connections stay."""
        self._server_port = server_port

    def _in_loop(self, work: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_SECONDS)

    async def _set(self, mode: Mode) -> None:
        # Streams with discarded bytes cannot continue.
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
        self._writers.add(writer)
        try:
            if self._mode is not Mode.CUT:
                with suppress(OSError):
                    await self._connect(reader, writer)
        finally:
            await self._hang_up(writer)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        self._writers.add(server_writer)
        passage = self.passage(writer)
        try:
            # Either side's end is an error here, which cancels the other direction.
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, server_writer, passage.request))
                both.create_task(self._pump(server_reader, writer, passage.answer))
        except* OSError:
            pass
        finally:
            await self._hang_up(server_writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, edit: Edit) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            await self._passing.wait()
            if self._mode is Mode.DROP:
                continue
            if passed := await edit(data):
                writer.write(passed)
                await writer.drain()
        raise ConnectionResetError

    async def _hang_up(self, writer: asyncio.StreamWriter) -> None:
        writer.close()  # after the pending bytes are sent
        with suppress(OSError):
            await writer.wait_closed()
        self._writers.discard(writer)

    async def _close(self) -> None:
        self._server.close()
        self._reset_all()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # an aborted transport closes its socket in the next turn of the loop
