"""TLS port of a worker process: accepts processes on other machines, and bounds those that have presented no key."""

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from actors.dispatch.actor_link.connection_bound import ConnectionBound
from actors.dispatch.actor_link.key_gate import KeyGate, TlsListener

if TYPE_CHECKING:
    from actors.dispatch.actor_link.server import ActorServer

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0  # after an accept that failed, for want of descriptors
SHUTDOWN_SECONDS = 1.0  # for a peer that answers no close


class TlsPort:
    """Accepts by itself: a server of asyncio holds any number of connections that begin no handshake."""

    def __init__(self, server: "ActorServer", tls: TlsListener) -> None:
        self._server = server
        self._tls = tls
        self.bound = ConnectionBound(server.service.max_connections)
        self._without_key = set[KeyGate]()
        self._accepting: list[asyncio.Task[None]] = []

    async def open(self, backlog: int) -> None:
        """Listen at all addresses of the host; raises OSError."""
        loop, where = asyncio.get_running_loop(), (self._tls.host or None, self._tls.port)
        found = await loop.getaddrinfo(*where, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        listeners: list[socket.socket] = []
        try:
            for family, _, _, _, address in dict.fromkeys(found):
                listeners.append(socket.create_server(address[:2], family=family, backlog=backlog, reuse_port=True))
        except OSError:
            for each in listeners:
                each.close()
            raise
        self._accepting = [loop.create_task(self._accept(each)) for each in listeners]

    def close(self) -> None:
        """Give the addresses up; accepted connections stay."""
        for each in self._accepting:
            each.cancel()

    def left(self, gate: KeyGate) -> None:
        """Make room: a connection has ended, or its key is accepted."""
        self._without_key.discard(gate)

    async def _accept(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        with listener:
            while True:
                try:
                    accepted, _ = await asyncio.get_running_loop().sock_accept(listener)
                except OSError as error:
                    log.warning("cannot accept processes with actors: %s; retrying in %.0f s", error, RETRY_SECONDS)
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                if len(self._without_key) >= self._tls.most_without_key:
                    accepted.close()
                else:
                    gate = KeyGate(self._server, self, self._tls)
                    self._without_key.add(gate)
                    self._server.run(self._begin(gate, accepted))

    async def _begin(self, gate: KeyGate, accepted: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: gate,
                accepted,
                ssl=self._tls.context,
                ssl_handshake_timeout=self._tls.key_seconds,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )
        except OSError as error:  # of TLS too, and of a handshake that takes too long
            self.left(gate)
            accepted.close()
            log.debug("no handshake with a process: %s", error)
