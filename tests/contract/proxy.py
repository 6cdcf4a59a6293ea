"""A TCP proxy that can lose or delay what the server answers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Proxy:
    """`loses` swallows the server's answers and hangs up; `delay_seconds` holds each back."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self.port = 0
        self.loses = False
        self.delay_seconds = 0.0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        requests = asyncio.create_task(_pump(reader, upstream_writer))
        try:
            with contextlib.suppress(OSError):
                while answer := await upstream_reader.read(65_536):
                    if self.loses:
                        return
                    await asyncio.sleep(self.delay_seconds)
                    writer.write(answer)
        finally:
            requests.cancel()
            upstream_writer.close()
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
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
