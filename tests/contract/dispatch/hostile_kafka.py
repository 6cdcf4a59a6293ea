"""Kafka broker that names another broker, in bytes that need not be text."""

import socket
import struct
import threading
from types import TracebackType
from typing import Self

_METADATA, _API_VERSIONS = 3, 18
_OLDEST_KNOWN = {0: (3, 3), _METADATA: (0, 1), _API_VERSIONS: (0, 0)}
_UNSUPPORTED_VERSION = 35


class HostileKafka:
    """Answers what a client asks first, with `advertised` as the host name of the only other broker."""

    def __init__(self, advertised: bytes) -> None:
        self._advertised = advertised
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
        with connection, connection.makefile("rb") as requests:
            while size := requests.read(4):
                request = requests.read(struct.unpack(">i", size)[0])
                api, version, correlation = struct.unpack_from(">hhi", request)
                body = struct.pack(">i", correlation) + self._body(api, version)
                connection.sendall(struct.pack(">i", len(body)) + body)

    def _body(self, api: int, version: int) -> bytes:
        if api == _METADATA:
            host = struct.pack(">h", len(self._advertised)) + self._advertised
            broker = struct.pack(">i", 1) + host + struct.pack(">ih", 1, -1)
            return struct.pack(">i", 1) + broker + struct.pack(">ii", 1, 0)
        ranges = b"".join(struct.pack(">hhh", name, *span) for name, span in _OLDEST_KNOWN.items())
        return struct.pack(">hi", _UNSUPPORTED_VERSION if version else 0, len(_OLDEST_KNOWN)) + ranges
