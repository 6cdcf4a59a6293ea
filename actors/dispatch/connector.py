"""Connector: opens connections to receivers, each to an address that the egress rules permit."""

import asyncio
import os
import socket
import ssl
from collections import deque
from collections.abc import Sequence
from functools import cached_property
from ipaddress import IPv6Address, ip_address
from typing import Any, NamedTuple, TypeVar

from aiohappyeyeballs import start_connection
from cachetools import TTLCache

from actors.dispatch.egress import AddressInfo, EgressRefusedError
from actors.dispatch.network import Network
from app.kernel.function_types import Run
from app.queue.executions.execution_model import DeliveryError

RECEIVE_BUFFER_BYTES = 65_536
ADDRESSES_AT_ONCE = 4
"""Maximum number of sockets for the opening of one connection: a name may have thousands of addresses."""
FRESH_SECONDS = 10.0  # lifetime of resolved addresses
_MAX_NAMES = 1000

P = TypeVar("P", bound=asyncio.Protocol)


class Origin(NamedTuple):
    """Peer of a connection."""

    is_tls: bool
    host: str
    port: int


class Connector:
    """Opens connections; everything but the constructor belongs to one event loop."""

    def __init__(self, network: Network, tls_protocols: Sequence[str] = ()) -> None:
        self._guard = network.guard
        self._resolver = network.resolver
        self._next_address_seconds = network.next_address_seconds
        self._found: TTLCache[tuple[str, int], deque[AddressInfo]] = TTLCache(_MAX_NAMES, FRESH_SECONDS)
        self._tls_protocols = tls_protocols

    async def connect(self, origin: Origin, make_protocol: Run[P]) -> P:
        """Open a connection to the first address that answers, with TLS, and return its protocol.

        Raises DeliveryError: nothing was sent.
        """
        addresses = await self._look_up(origin)
        while True:
            sock = await self._reach(origin, addresses)
            peer = _peer(sock)
            try:
                return await self._open(origin, sock, make_protocol)
            except OSError as error:
                others = [address for address in addresses if address[4][:2] != peer[:2]]
                if not others or len(others) == len(addresses):
                    raise _failure(origin, error) from None
            addresses = others

    async def reach(self, origin: Origin) -> socket.socket:
        """Return a socket connected to the first address that answers, without TLS; raises DeliveryError."""
        return await self._reach(origin, await self._look_up(origin))

    @cached_property
    def tls(self) -> ssl.SSLContext:
        # Made at the first use, because it loads the certificates of all authorities.
        context = ssl.create_default_context()
        if self._tls_protocols:
            context.set_alpn_protocols(list(self._tls_protocols))
        # A server that requests repeated handshakes would cost us more than itself.
        context.options |= ssl.OP_NO_RENEGOTIATION
        return context

    async def _look_up(self, origin: Origin) -> list[AddressInfo]:
        """Return the addresses of a host, each time with another first address, so that they share the connections."""
        host, port = origin.host, origin.port
        literal = _literal(host, port)
        if literal is not None:
            return [literal]
        # A name with several final dots equals the name with a single final dot.
        name = host.rstrip(".") + "." if host.endswith("..") else host
        addresses = self._found.get((name, port))
        if addresses is None:
            try:
                # The resolver shares one lookup between concurrent calls.
                addresses = self._found[name, port] = deque(await self._resolver.look_up(name, port))
            except OSError as error:
                reason = f"the host name {host} cannot be resolved: {error.strerror or error}"
                raise DeliveryError("CONNECTION_ERROR", reason) from None
        found = list(addresses)
        addresses.rotate(-1)
        return found

    async def _reach(self, origin: Origin, addresses: list[AddressInfo]) -> socket.socket:
        fault = OSError()
        for first in range(0, len(addresses), ADDRESSES_AT_ONCE):
            try:
                return await start_connection(
                    addresses[first : first + ADDRESSES_AT_ONCE],
                    happy_eyeballs_delay=self._next_address_seconds,
                    socket_factory=self._open_socket,
                )
            except OSError as error:
                # A refusal of one address by the egress rules says nothing about the other addresses.
                if first == 0 or isinstance(fault, EgressRefusedError):
                    fault = error
        raise _failure(origin, fault)

    def _open_socket(self, address: AddressInfo) -> socket.socket:
        sock = self._guard.open_socket(address)
        # Bounds the bytes of an answer that the system buffers and TLS decrypts at once; its default is megabytes.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        return sock

    async def _open(self, origin: Origin, sock: socket.socket, make_protocol: Run[P]) -> P:
        tls = self.tls if origin.is_tls else None
        _, protocol = await asyncio.get_running_loop().create_connection(
            make_protocol,
            sock=sock,
            ssl=tls,
            # Certificates name hosts without the final dot.
            server_hostname=origin.host.rstrip(".") if tls else None,
        )
        return protocol


def _peer(sock: socket.socket) -> Any:
    try:
        return sock.getpeername()
    except OSError:  # already disconnected
        return ()


def _failure(origin: Origin, error: OSError) -> DeliveryError:
    where = f"{origin.host}:{origin.port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message or "it cannot be verified"
        return DeliveryError("CONNECTION_ERROR", f"the TLS certificate of {origin.host} is not valid: {reason}")
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else (error.strerror or str(error))
    if isinstance(error, ssl.SSLError):
        return DeliveryError("CONNECTION_ERROR", f"the TLS handshake with {where} failed: {error.reason or reason}")
    refused = isinstance(error, EgressRefusedError)
    return DeliveryError("CONNECTION_ERROR", f"cannot connect to {where}: {reason}", permanent=refused)


def _literal(host: str, port: int) -> AddressInfo | None:
    """Return the address if the host is an address without a zone; else the resolver is needed."""
    if "%" in host or not (":" in host or host[-1:].isdigit()):
        return None
    try:
        address = ip_address(host)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port)
