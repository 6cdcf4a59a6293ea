"""Hostile Kafka brokers: one advertises any number of brokers with any bytes as host name, one sends any bytes."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

_METADATA, _API_VERSIONS = 3, 18
_OLDEST_KNOWN = {0: (3, 3), _METADATA: (0, 1), _API_VERSIONS: (0, 0)}
_UNSUPPORTED_VERSION = 35


class HostileKafka:
    """A broker that answers the first requests of a client, and advertises `brokers` brokers.

    `advertised` is the host name of each of these brokers.
    """

    def __init__(self, advertised: bytes, brokers: int = 1) -> None:
        self.advertised = advertised
        self._brokers = brokers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as requests:
            while len(size := requests.read(4)) == 4:
                request = requests.read(struct.unpack(">i", size)[0])
                api, version, correlation = struct.unpack_from(">hhi", request)
                body = struct.pack(">i", correlation) + self._body(api, version)
                connection.sendall(struct.pack(">i", len(body)) + body)

    def _body(self, api: int, version: int) -> bytes:
        if api == _METADATA:
            host = struct.pack(">h", len(self.advertised)) + self.advertised
            brokers = (
                struct.pack(">i", number) + host + struct.pack(">ih", number, -1)
                for number in range(1, self._brokers + 1)
            )
            return struct.pack(">i", self._brokers) + b"".join(brokers) + struct.pack(">ii", 1, 0)
        ranges = b"".join(struct.pack(">hhh", name, *span) for name, span in _OLDEST_KNOWN.items())
        return struct.pack(">hi", _UNSUPPORTED_VERSION if version else 0, len(_OLDEST_KNOWN)) + ranges


class FloodingKafka(HostileKafka):
    """A broker that sends the chunks of `flood` on each connection, without reading the request.

    `max_taken` is the largest number of bytes that a connection accepted.
    """

    def __init__(self, flood: Callable[[], Iterator[bytes]]) -> None:
        super().__init__(b"")
        self._flood = flood
        self.max_taken = 0

    def _answer(self, connection: socket.socket) -> None:
        sent = 0
        with connection, contextlib.suppress(OSError):
            connection.recv(1)
            for chunk in self._flood():
                connection.sendall(chunk)
                sent += len(chunk)
                self.max_taken = max(self.max_taken, sent)
