"""Addresses of receivers: looked up once for all who want them at the same time, and remembered for a moment."""

import asyncio
import socket
import time
from ipaddress import IPv6Address, ip_address

from actors.dispatch.egress import AddressInfo
from actors.dispatch.resolver import Resolver

FRESH_SECONDS = 10.0
_MOST_NAMES = 1000


class _Lookup:
    """One look-up of a name, under way or done."""

    def __init__(self, task: asyncio.Task[list[AddressInfo]]) -> None:
        self.task = task
        self._ended_at = 0.0
        self._turn = 0
        task.add_done_callback(self._note_end)

    @property
    def is_fresh(self) -> bool:
        if not self.task.done():
            return True
        failed = self.task.cancelled() or self.task.exception() is not None
        return not failed and time.monotonic() - self._ended_at < FRESH_SECONDS

    def next_order(self, found: list[AddressInfo]) -> list[AddressInfo]:
        """Return the addresses, beginning with another one each time: they share the connections."""
        first = self._turn % len(found)
        self._turn += 1
        return found[first:] + found[:first]

    def _note_end(self, task: asyncio.Task[list[AddressInfo]]) -> None:
        self._ended_at = time.monotonic()
        if not task.cancelled():
            task.exception()  # whoever waited for it may have run out of time


class Addresses:
    """The addresses of host names; belongs to one event loop."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._lookups: dict[tuple[str, int], _Lookup] = {}

    async def of(self, host: str, port: int) -> list[AddressInfo]:
        """Return the addresses of a host, at least one; raises OSError."""
        literal = _literal(host, port)
        if literal is not None:
            return [literal]
        lookup = self._lookups.get((host, port))
        if lookup is None or not lookup.is_fresh:
            lookup = self._look_up(host, port)
        # Others may wait for it too, so one that runs out of time does not cancel it.
        return lookup.next_order(await asyncio.shield(lookup.task))

    def close(self) -> None:
        """Give up the look-ups that are under way."""
        for lookup in self._lookups.values():
            lookup.task.cancel()
        self._lookups.clear()

    def _look_up(self, host: str, port: int) -> _Lookup:
        self._lookups.pop((host, port), None)
        while len(self._lookups) >= _MOST_NAMES:
            del self._lookups[next(iter(self._lookups))]
        lookup = self._lookups[host, port] = _Lookup(asyncio.create_task(self._resolver.look_up(host, port)))
        return lookup


def _literal(host: str, port: int) -> AddressInfo | None:
    """Return the address if the host is one; one with a zone is left to the resolver."""
    if "%" in host or not (":" in host or host[-1:].isdigit()):
        return None
    try:
        address = ip_address(host)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port)
