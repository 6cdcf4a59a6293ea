"""Answers that have come by an instant or are given up: the timeout of a socket alone begins anew with each byte."""

import io
import math
import time
from http.client import HTTPResponse
from socket import socket
from typing import Any

from requests import PreparedRequest
from requests.adapters import HTTPAdapter


class _Timed(io.RawIOBase):
    """Reads from a socket until an instant of `time.monotonic()`; raises TimeoutError from then on."""

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
    """Has as long for all of its bytes as its socket had for the first when it was made."""

    def __init__(self, sock: socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        seconds = sock.gettimeout()
        end = math.inf if seconds is None else time.monotonic() + seconds
        self.fp = io.BufferedReader(_Timed(self.fp.detach(), sock, end))


class TimedAdapter(HTTPAdapter):
    """Bounds the time of whole answers by the timeout for reading, the head included, also by way of proxies."""

    def get_connection_with_tls_context(self, request: PreparedRequest, *args: Any, **options: Any) -> Any:
        """Return the pool of a request, whose connections make timed answers."""
        pool: Any = super().get_connection_with_tls_context(request, *args, **options)
        usual = pool.ConnectionCls
        if usual.response_class is not _Response:
            pool.ConnectionCls = type(usual.__name__, (usual,), {"response_class": _Response})
        return pool
