"""Key gate: a connection by TLS from another machine, until the worker has accepted its API key."""

import asyncio
import random
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from actors.dispatch.actor_link.frames import FrameError, FrameKind, encode, first_frame
from actors.dispatch.actor_link.peer import Peer
from actors.dispatch.actor_link.process_connection import ProcessConnection
from actors.open_files import MAX_WITHOUT_KEY
from app.kernel.access.key_ring import Key
from app.kernel.config import SettingError
from app.kernel.errors import TaskExecutorError, UnavailableError

if TYPE_CHECKING:
    from actors.dispatch.actor_link.server import ActorServer
    from actors.dispatch.actor_link.tls_port import TlsPort

KEY_SECONDS = 10.0  # for the handshake, and for the key after it
RECHECK_SECONDS = 25.0  # at most 30 s, for which a connection with a revoked key lasts
_SPREAD = 0.8, 1.2  # of processes that connect at once
MAX_KEY_FRAME_BYTES = 1024
# A machine that is gone closes no connection; these probes find it as soon as a lease would run out.
_PROBES = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2, "TCP_USER_TIMEOUT": 15_000}


@dataclass(frozen=True, slots=True)
class TlsListener:
    """Address, certificate, and the check of keys, which blocks and raises TaskExecutorError.

    All processes of one `dramatiq` command listen at the same address.
    """

    host: str
    port: int
    context: ssl.SSLContext
    verify: Callable[[str], Key]
    key_seconds: float = KEY_SECONDS
    recheck_seconds: float = RECHECK_SECONDS
    most_without_key: int = MAX_WITHOUT_KEY


def certificate(path: Path, key_path: Path) -> ssl.SSLContext:
    """Load a certificate with its chain and its private key; raises SettingError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(path, key_path)
    except (OSError, ssl.SSLError) as error:
        raise SettingError(
            f"TE_ACTORS_TLS_CERT, TE_ACTORS_TLS_KEY: cannot load {path} with {key_path}: {error}"
        ) from None
    return context


class KeyGate(asyncio.Protocol):
    """Protocol of a connection until its key is accepted; then `ProcessConnection` takes its place."""

    def __init__(self, server: "ActorServer", port: "TlsPort", tls: TlsListener) -> None:
        self._server = server
        self._port = port
        self._tls = tls
        self._buffer = b""
        self._is_verifying = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        _find_lost_machines(transport.get_extra_info("socket"))
        wait = self._tls.key_seconds
        self._timer = asyncio.get_running_loop().call_later(wait, self._refuse, "no API key came in time")

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._is_verifying:
            return
        try:
            found = first_frame(self._buffer, MAX_KEY_FRAME_BYTES)
        except FrameError as error:
            self._refuse(str(error))
            return
        if found is None:
            return
        frame, self._buffer = found
        if frame["kind"] != FrameKind.KEY:
            self._refuse("the first frame is KEY, with an API key")
            return
        self._is_verifying = True
        self._timer.cancel()
        self._transport.pause_reading()
        self._server.run(self._admit(str(frame.get("key"))))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._port.left(self)
        self._timer.cancel()

    async def _admit(self, presented: str) -> None:
        """Hand the connection over if the key may work actors, and close it once the key may not."""
        try:
            key = await asyncio.to_thread(self._tls.verify, presented)
        except UnavailableError as error:  # no answer is no refusal, after which a process waits longer
            self._port.bound.note_refusal(
                self._transport.get_extra_info("peername"), f"no check of keys: {error.message}"
            )
            self._transport.close()
            return
        except TaskExecutorError as error:
            self._refuse(error.message)
            return
        if self._transport.is_closing():
            return
        self._port.left(self)
        connection = ProcessConnection(self._server, self._port.bound, Peer(None, None, None, key))
        self._transport.set_protocol(connection)
        connection.connection_made(self._transport)
        connection.data_received(self._buffer)
        self._transport.resume_reading()
        await self._recheck(presented, connection)

    async def _recheck(self, presented: str, connection: ProcessConnection) -> None:
        while True:
            await asyncio.sleep(self._tls.recheck_seconds * random.uniform(*_SPREAD))
            if self._transport.is_closing():
                return
            try:
                key = await asyncio.to_thread(self._tls.verify, presented)
            except UnavailableError:  # no answer is no refusal
                continue
            except TaskExecutorError as error:
                self._refuse(error.message)
                return
            connection.recheck(key)

    def _refuse(self, reason: str) -> None:
        self._timer.cancel()
        self._port.bound.note_refusal(self._transport.get_extra_info("peername"), reason)
        self._transport.write(encode(FrameKind.REFUSED, reason=reason))
        self._transport.close()


def _find_lost_machines(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if (option := getattr(socket, name, None)) is not None:  # Linux has all
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
