"""Deadline for whole responses: a socket's own timeout starts again with each received byte."""

import io
import math
import time
from http.client import HTTPResponse
from socket import socket
from typing import Any

from requests import PreparedRequest
from requests.adapters import HTTPAdapter


class _Timed(io.RawIOBase):
    """Reader of a socket that raises TimeoutError after `end`, an instant of `time.monotonic()`."""

    def __init__(self, raw: io.RawIOBase, sock: socket, end: float) -> None:
        self._raw = raw
        self._sock = sock
        self._end = end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer took too long")
        if left < math.inf:
            self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(HTTPResponse):
    """Response whose socket timeout is the limit for all of its bytes."""

    def __init__(self, sock: socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        seconds = sock.gettimeout()
        end = math.inf if seconds is None else time.monotonic() + seconds
        self.fp = io.BufferedReader(_Timed(self.fp.detach(), sock, end))


class TimedAdapter(HTTPAdapter):
    """Adapter that applies the read timeout to the whole response, head included, also through proxies."""

    def get_connection_with_tls_context(self, request: PreparedRequest, *args: Any, **options: Any) -> Any:
        """Return the connection pool of a request, with timed responses."""
        pool: Any = super().get_connection_with_tls_context(request, *args, **options)
        usual = pool.ConnectionCls
        if usual.response_class is not _Response:
            pool.ConnectionCls = type(usual.__name__, (usual,), {"response_class": _Response})
        return pool
