"""Addresses of receivers, remembered for a moment after they were looked up."""

import socket
import time
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from actors.dispatch.egress import AddressInfo
from actors.dispatch.resolver import Resolver

FRESH_SECONDS = 10.0
_MOST_NAMES = 1000


@dataclass(slots=True)
class _CachedAddresses:
    """What a name led to, and until when that counts, on time.monotonic()."""

    addresses: list[AddressInfo]
    until: float
    turn: int = 0

    def next_order(self) -> list[AddressInfo]:
        """Return the addresses, beginning with another one each time: they share the connections."""
        first = self.turn % len(self.addresses)
        self.turn += 1
        return self.addresses[first:] + self.addresses[:first]


class Addresses:
    """The addresses of host names; belongs to one event loop."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._found: dict[tuple[str, int], _CachedAddresses] = {}

    async def of(self, host: str, port: int) -> list[AddressInfo]:
        """Return the addresses of a host, at least one; raises OSError."""
        literal = _literal(host, port)
        if literal is not None:
            return [literal]
        found = self._found.get((host, port))
        if found is None or time.monotonic() >= found.until:
            # Those who want it at the same time share one look-up: the resolver sees to that.
            found = self._remember((host, port), await self._resolver.look_up(host, port))
        return found.next_order()

    def _remember(self, name: tuple[str, int], addresses: list[AddressInfo]) -> _CachedAddresses:
        self._found.pop(name, None)
        while len(self._found) >= _MOST_NAMES:
            del self._found[next(iter(self._found))]
        found = self._found[name] = _CachedAddresses(addresses, time.monotonic() + FRESH_SECONDS)
        return found


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
