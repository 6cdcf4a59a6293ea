"""Minimal client on one kept connection, so that the measured times are those of the server."""

import json
import socket
import time
from typing import Any, Self


class KeepAlive:
    """Client of one server; a context manager."""

    def __init__(self, host: str, port: int, key: str = "") -> None:
        self._socket = socket.create_connection((host, port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._host = f"{host}:{port}"
        self._key = key

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._socket.close()

    def post(self, path: str, body: Any) -> tuple[float, float, Any]:
        """POST and return the seconds of the exchange, the Unix time of the answer, and the answer."""
        head, payload = request("POST", path, self._host, self._key, json.dumps(body).encode())
        started = time.perf_counter()
        self._socket.sendall(head + payload)
        status, answer = self._receive()
        seconds, instant = time.perf_counter() - started, time.time()
        if not 200 <= status < 300:
            raise RuntimeError(f"POST {path} answered {status}: {answer[:300]!r}")
        return seconds, instant, json.loads(answer)

    def _receive(self) -> tuple[int, bytes]:
        received = b""
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self._more()
        total = end + 4 + content_length(received[:end])
        while len(received) < total:
            received += self._more()
        return int(received[9:12]), received[end + 4 : total]

    def _more(self) -> bytes:
        data = self._socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the server closed the connection")
        return data


def request(method: str, path: str, host: str, key: str, payload: bytes) -> tuple[bytes, bytes]:
    """Return head and body of a request."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
    )
    return head.encode(), payload


def content_length(head: bytes) -> int:
    """Read the length of a body from the head before it."""
    lowered = head.lower()
    start = lowered.index(b"\r\ncontent-length:") + 17
    end = lowered.find(b"\r\n", start)
    return int(lowered[start : end if end >= 0 else None])
