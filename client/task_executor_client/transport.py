"""Transport of calls over requests."""

import os
import threading
from http.cookiejar import DefaultCookiePolicy

import requests
from requests.auth import AuthBase
from urllib3 import Timeout
from urllib3.exceptions import HTTPError, NewConnectionError

from .address import Address
from .answer import MAX_BYTES, Reply
from .call import Call
from .failures import ConnectionFailedError, UnexpectedAnswerError
from .timed import TimedAdapter

CONNECT_SECONDS = 5.0
_CHUNK = 65_536


class _Key(AuthBase):
    """Authentication with the API key; without `auth` requests would use a password from ~/.netrc instead."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = self._address.headers["Authorization"]
        return request


class _Session(requests.Session):
    """Session that returns redirects as answers."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None; otherwise requests reads the whole body of a redirect even without following it."""


class Transport:
    """Connections to the service, shared by threads; a forked process opens its own.

    Args:
        address: Address of the service.
        connections: Number of connections kept open.
    """

    def __init__(self, address: Address, connections: int) -> None:
        self._address = address
        self._connections = connections
        self._lock = threading.Lock()
        self._session: requests.Session | None = None
        self._pid = 0
        self.is_closed = False

    def close(self) -> None:
        """Close the connections; later calls raise RuntimeError."""
        with self._lock:
            self.is_closed = True
            if self._session is not None and self._pid == os.getpid():
                self._session.close()
            self._session = None

    def attempt(self, call: Call, timeout: float) -> Reply | ConnectionFailedError:
        """Send a call once.

        Args:
            call: Call to send.
            timeout: Limit in seconds, from the connection to the last byte of the body.

        Returns:
            The reply, of any status, or the failure to get a reply.

        Raises:
            RuntimeError: The client is closed.
            UnexpectedAnswerError: The body is larger than MAX_BYTES.
        """
        try:
            with self._open().request(
                call.method,
                self._address.base_url + call.target,
                data=call.content,
                headers=dict(call.headers) | ({} if call.content is None else {"Content-Type": "application/json"}),
                auth=_Key(self._address),
                timeout=Timeout(total=timeout, connect=min(timeout, CONNECT_SECONDS)),  # type: ignore[arg-type]
                allow_redirects=False,
                stream=True,
            ) as response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Reply(response.status_code, headers, _content(call, response))
        except (requests.RequestException, HTTPError, OSError) as error:
            # Only the class is named, because messages of libraries may contain secrets; the cause keeps the rest.
            failed = ConnectionFailedError(
                f"{call.operation}: no answer from {self._address.base_url} ({type(error).__name__})",
                not _unsent(error),
            )
            failed.__cause__ = error
            return failed

    def _open(self) -> requests.Session:
        with self._lock:
            if self.is_closed:
                raise RuntimeError("the client is closed")
            if self._session is None or self._pid != os.getpid():
                self._session, self._pid = self._new_session(), os.getpid()
            return self._session

    def _new_session(self) -> requests.Session:
        session = _Session()
        session.headers.update({name: text for name, text in self._address.headers.items() if name != "Authorization"})
        session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        adapter = TimedAdapter(pool_connections=1, pool_maxsize=self._connections)
        session.mount("http://", adapter)
        session.mount("https://", adapter)
        return session


def _content(call: Call, response: requests.Response) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := response.raw.read1(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            raise UnexpectedAnswerError(f"{call.operation}: the answer has more than {MAX_BYTES} bytes")
    return b"".join(parts)


def _unsent(error: BaseException) -> bool:
    if isinstance(error, requests.ConnectTimeout):
        return True
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(reason, NewConnectionError)
