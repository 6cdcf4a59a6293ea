"""A TCP proxy that can lose or delay what the server answers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Proxy:
    """Swallows answers of the server and hangs up, or holds each back for `delay_seconds`.

    `loses` does it to every answer, `loses_answer_to` to what follows the first request with these bytes.
    """

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.port = 0
        self.loses = False
        self.loses_answer_to: bytes | None = None
        self.delay_seconds = 0.0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self.server_port)
        is_lost = asyncio.Event()
        requests = asyncio.create_task(self._pump(reader, upstream_writer, is_lost))
        try:
            with contextlib.suppress(OSError):
                while answer := await upstream_reader.read(65_536):
                    if self.loses or is_lost.is_set():
                        return
                    await asyncio.sleep(self.delay_seconds)
                    writer.write(answer)
        finally:
            requests.cancel()
            upstream_writer.close()
            writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_lost: asyncio.Event) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if self.loses_answer_to is not None and self.loses_answer_to in data:
                    self.loses_answer_to = None
                    is_lost.set()
                writer.write(data)


@asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[Proxy]:
    """Listen in front of a local port."""
    proxy = Proxy(port)
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.get_running_loop().create_task(proxy.handle(reader, writer)))

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    proxy.port = listener.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
