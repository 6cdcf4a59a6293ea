"""Resolver: looks up host names on threads of its own.

The event loop's pool has only a few threads, which a few targets with dead name servers would occupy.
"""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

from aiohttp.abc import AbstractResolver, ResolveResult

from actors.dispatch.egress import AddressInfo

_THREADS = 32


class Resolver(AbstractResolver):
    """Looks names up with the system's resolver; also aiohttp's resolver."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="te-resolver")

    async def look_up(self, host: str, port: int, family: int = socket.AF_UNSPEC) -> list[AddressInfo]:
        """Return the addresses of a host, at least one; raises OSError."""
        loop = asyncio.get_running_loop()
        try:
            infos = await loop.run_in_executor(
                self._threads, socket.getaddrinfo, host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG
            )
        except UnicodeError:
            raise OSError("it is not a valid host name") from None
        return list(infos)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a host through aiohttp's resolver interface."""
        return [
            ResolveResult(
                hostname=host,
                host=info[4][0],
                port=port,
                family=info[0],
                proto=info[2],
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for info in await self.look_up(host, port, family)
        ]

    def stop(self) -> None:
        """Start no more lookups; one that hangs is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def close(self) -> None:
        """Do nothing at the end of an aiohttp session: the resolver is shared."""
