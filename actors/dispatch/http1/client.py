"""HTTP client: exchanges requests for answers, on connections that it keeps for a few seconds without use.

A connection also has a maximum age, so that a change of an address in DNS is followed under steady traffic.
"""

import asyncio
import time
from functools import partial

from actors.dispatch.connector import Connector, Origin
from actors.dispatch.http1.answer import AnswerReader
from actors.dispatch.http1.connection import HttpConnection, LoopShare
from actors.dispatch.idle_pool import lifetime
from actors.dispatch.network import Network
from actors.dispatch.send_progress import Progress

KEEP_ALIVE_SECONDS = 4.0  # common servers close idle connections after 5: close them earlier


class Client:
    """Exchanges requests for answers; everything but the constructor belongs to one event loop.

    Idle connections are closed when all connections together would exceed the limit of the process.
    """

    def __init__(self, network: Network) -> None:
        self._most = network.connections
        self._max_age_seconds = network.max_age_seconds
        self._connector = Connector(network, ["http/1.1"])
        self._share = LoopShare()
        self._busy: set[HttpConnection] = set()
        self._opening = 0
        self._idle: dict[HttpConnection, tuple[Origin, float]] = {}  # with the time of the last use, in that order
        self._idle_of: dict[Origin, list[HttpConnection]] = {}
        self._sweeping: asyncio.TimerHandle | None = None

    async def exchange(self, origin: Origin, request: bytes, progress: Progress) -> AnswerReader:
        """Send a request once and return its answer; `progress` permits the first byte.

        Raises DeliveryError while nothing was sent; later AnswerError or OSError.
        """
        connection = self._take(origin) or await self._connect(origin)
        self._busy.add(connection)
        try:
            return await connection.exchange(request, progress)
        finally:
            self._busy.discard(connection)
            now = time.monotonic()
            if now >= connection.retires_at:
                connection.abort()
            if connection.is_usable:
                self._idle[connection] = origin, now
                self._idle_of.setdefault(origin, []).append(connection)
                self._make_room()
                if self._sweeping is None:
                    self._sweep_after(KEEP_ALIVE_SECONDS)

    def close(self) -> None:
        """Close every connection."""
        for connection in (*self._busy, *self._idle):
            connection.abort()
        if self._sweeping is not None:
            self._sweeping.cancel()

    async def _connect(self, origin: Origin) -> HttpConnection:
        self._opening += 1
        self._make_room()
        try:
            connection = await self._connector.connect(origin, partial(HttpConnection, self._share, self._forget))
            connection.retires_at = time.monotonic() + lifetime(self._max_age_seconds)
            return connection
        finally:
            self._opening -= 1

    def _take(self, origin: Origin) -> HttpConnection | None:
        """Return the most recently used connection to an origin, if it is not too old."""
        for connection in reversed(self._idle_of.get(origin, ())):
            _, used_at = self._idle[connection]
            if connection.is_usable and time.monotonic() - used_at < KEEP_ALIVE_SECONDS:
                self._forget(connection)
                return connection
        return None

    def _make_room(self) -> None:
        while self._idle and self._opening + len(self._busy) + len(self._idle) > self._most:
            self._drop(next(iter(self._idle)))

    def _sweep_after(self, seconds: float) -> None:
        self._sweeping = asyncio.get_running_loop().call_later(seconds, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        now = time.monotonic()
        for connection, (_, used_at) in list(self._idle.items()):
            if now - used_at < KEEP_ALIVE_SECONDS:
                self._sweep_after(KEEP_ALIVE_SECONDS - (now - used_at))
                return
            self._drop(connection)

    def _drop(self, connection: HttpConnection) -> None:
        self._forget(connection)
        connection.abort()

    def _forget(self, connection: HttpConnection) -> None:
        """Remove a connection from the idle ones: it is taken, or lost."""
        origin, _ = self._idle.pop(connection, (None, 0.0))
        if origin is not None:
            idle = self._idle_of[origin]
            idle.remove(connection)
            if not idle:
                del self._idle_of[origin]
