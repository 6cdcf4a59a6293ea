"""Web: what Apprise has for the module `requests`: each request goes through the outlet of its thread.

No proxy, no .netrc, no redirect and no more of an answer than is kept: as deliveries over HTTP.
"""

import socket
import ssl
from http.client import HTTPException, HTTPResponse
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

from actors.dispatch.channels.outlet import MOST_TEXT, Answer, current

MOST_BYTES = 262_144
MOST_HEADS = 10
_PIECE = 16_384


class _Response(HTTPResponse):
    """An answer, before which a server may send a few interim ones, and not more for as long as the attempt lasts."""

    heads = 0

    def _read_status(self) -> tuple[str, int, str]:
        self.heads += 1
        if self.heads > MOST_HEADS:
            raise HTTPException("too many interim answers")
        found: tuple[str, int, str] = super()._read_status()  # type: ignore[misc]
        return found


class _Connection(HTTPConnection):
    response_class = _Response

    def _new_conn(self) -> socket.socket:
        return current().connect(self._dns_host, self.port or 80)


class _TlsConnection(HTTPSConnection):
    response_class = _Response

    def _new_conn(self) -> socket.socket:
        return current().connect(self._dns_host, self.port or 443)

    def connect(self) -> None:
        """Connect, and shake hands."""
        with current().reaching(self.host, self.port or 443):
            super().connect()


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        # The authorities of the system too, as deliveries over HTTP trust them.
        super().init_poolmanager(*arguments, ssl_context=ssl.create_default_context(), **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}


class Requests:
    """Stands for the module `requests`."""

    def __getattr__(self, name: str) -> Any:
        """Return what the module has: exceptions, codes, authentication."""
        return getattr(requests, name)

    def request(self, method: str, url: str, **options: Any) -> requests.Response:
        """Send a request and read its answer, as far as it is kept."""
        outlet = current()
        own = {"timeout": outlet.left(), "allow_redirects": False, "stream": True, "verify": True, "proxies": None}
        with requests.Session() as session:
            session.trust_env = False
            for scheme in ("http://", "https://"):
                session.mount(scheme, _Adapter(max_retries=0))
            with session.request(method, url, **{**options, **own}) as response:
                _read(response)
        text = response.content[:MOST_TEXT].decode(errors="replace")
        outlet.answer = Answer(response.status_code, text, response.headers.get("Retry-After"))
        return response

    def get(self, url: str, params: Any = None, **options: Any) -> requests.Response:
        """Send a GET."""
        return self.request("GET", url, params=params, **options)

    def post(self, url: str, data: Any = None, json: Any = None, **options: Any) -> requests.Response:
        """Send a POST."""
        return self.request("POST", url, data=data, json=json, **options)

    def put(self, url: str, data: Any = None, **options: Any) -> requests.Response:
        """Send a PUT."""
        return self.request("PUT", url, data=data, **options)

    def patch(self, url: str, data: Any = None, **options: Any) -> requests.Response:
        """Send a PATCH."""
        return self.request("PATCH", url, data=data, **options)

    def delete(self, url: str, **options: Any) -> requests.Response:
        """Send a DELETE."""
        return self.request("DELETE", url, **options)

    def head(self, url: str, **options: Any) -> requests.Response:
        """Send a HEAD."""
        return self.request("HEAD", url, **options)

    def Session(self) -> None:  # noqa: N802 - the module's name for it
        """Refuse what would go round the outlet."""
        raise NotImplementedError("no session: each request goes through the outlet")

    session = Session


def _read(response: requests.Response) -> None:
    content = bytearray()
    for piece in response.iter_content(_PIECE):
        content += piece
        current().left()  # an answer that drips is not waited for
        if len(content) > MOST_BYTES:
            break
    response._content = bytes(content[:MOST_BYTES])  # noqa: SLF001 - as if it had been the whole answer
    response._content_consumed = True  # type: ignore[attr-defined]  # noqa: SLF001
