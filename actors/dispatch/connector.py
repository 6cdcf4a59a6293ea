"""Connector: opens connections to receivers, each to an address that the egress rules permit."""

import asyncio
import os
import socket
import ssl
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from aiohappyeyeballs import start_connection

from actors.dispatch.addresses import Addresses
from actors.dispatch.base import Network
from actors.dispatch.egress import AddressInfo, EgressRefusedError
from app.kernel.function_types import Run
from app.queue.executions.execution_model import DeliveryError

RECEIVE_BUFFER_BYTES = 65_536
NEXT_ADDRESS_SECONDS = 0.25  # RFC 8305: how long an address is tried alone
ADDRESSES_AT_ONCE = 4
"""How many sockets the opening of one connection takes at most: a name may have thousands of addresses."""

P = TypeVar("P", bound=asyncio.Protocol)


class Origin(NamedTuple):
    """What a connection leads to."""

    is_tls: bool
    host: str
    port: int


class Connector:
    """Opens connections; everything but the constructor belongs to one event loop."""

    def __init__(self, network: Network, tls_protocols: Sequence[str] = ()) -> None:
        self._guard = network.guard
        self._addresses = Addresses(network.resolver)
        self._tls_protocols = tls_protocols

    async def connect(self, origin: Origin, make_protocol: Run[P]) -> P:
        """Open a connection to the first address that answers, TLS included; returns its protocol.

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
        """Return a socket that is connected to the first address that answers, without TLS; raises DeliveryError."""
        return await self._reach(origin, await self._look_up(origin))

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """Context of all connections with TLS."""
        # Made when it is needed: it holds the certificates of all authorities.
        context = ssl.create_default_context()
        if self._tls_protocols:
            context.set_alpn_protocols(list(self._tls_protocols))
        # A server that asks for one handshake after the other would cost us more than itself.
        context.options |= ssl.OP_NO_RENEGOTIATION
        return context

    async def _look_up(self, origin: Origin) -> list[AddressInfo]:
        host = origin.host
        try:
            # A name that ends with several dots means the one that ends with one.
            return await self._addresses.of(host.rstrip(".") + "." if host.endswith("..") else host, origin.port)
        except OSError as error:
            reason = f"the host name {host} cannot be resolved: {error.strerror or error}"
            raise DeliveryError("CONNECTION_ERROR", reason) from None

    async def _reach(self, origin: Origin, addresses: list[AddressInfo]) -> socket.socket:
        fault = OSError()
        for first in range(0, len(addresses), ADDRESSES_AT_ONCE):
            try:
                return await start_connection(
                    addresses[first : first + ADDRESSES_AT_ONCE],
                    happy_eyeballs_delay=NEXT_ADDRESS_SECONDS,
                    socket_factory=self._open_socket,
                )
            except OSError as error:
                # An address that is refused for good says nothing about the others.
                if first == 0 or isinstance(fault, EgressRefusedError):
                    fault = error
        raise _failure(origin, fault)

    def _open_socket(self, address: AddressInfo) -> socket.socket:
        sock = self._guard.open_socket(address)
        # What the system keeps, and TLS decrypts at once, of an answer; the system would allow megabytes.
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
    except OSError:  # it has hung up already
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
