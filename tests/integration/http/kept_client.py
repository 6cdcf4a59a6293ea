"""Client that keeps its connection for several requests."""

import socket

from tests.integration.http.web_process import Web

REQUEST = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"


class Client:
    """Connection that is kept for several requests."""

    def __init__(self, web: Web) -> None:
        self._socket = socket.create_connection(("127.0.0.1", web.port), timeout=60)
        self._reader = self._socket.makefile("rb")

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()
        self._socket.close()

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)

    def status(self) -> int:
        """Read one answer."""
        return self.answer()[0]

    def answer(self) -> tuple[int, bytes]:
        """Read one answer; return its status and its body."""
        status, length = int(self._reader.readline().split()[1]), 0
        while (line := self._reader.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return status, self._reader.read(length)
