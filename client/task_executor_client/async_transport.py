"""Transport of calls over aiohttp (extra `async`)."""

import aiohttp
from yarl import URL

from .address import Address
from .answer import MAX_BYTES, Reply
from .call import Call
from .failures import ConnectionFailedError, UnexpectedAnswerError
from .transport import CONNECT_SECONDS


class AsyncTransport:
    """Connections to the service in one event loop, opened by the first call.

    Args:
        address: Address of the service.
        connections: Largest number of open connections.
    """

    def __init__(self, address: Address, connections: int) -> None:
        self._address = address
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None
        self.is_closed = False

    async def close(self) -> None:
        """Close the connections; later calls raise RuntimeError."""
        self.is_closed = True
        if self._session is not None:
            await self._session.close()

    async def attempt(self, call: Call, timeout: float) -> Reply | ConnectionFailedError:
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
        session = self._open()
        try:
            async with session.request(
                call.method,
                # Already encoded: yarl would decode an escaped slash in a name.
                URL(self._address.base_url + call.target, encoded=True),
                data=call.content,
                headers=dict(call.headers) | ({} if call.content is None else {"Content-Type": "application/json"}),
                timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_SECONDS),
                allow_redirects=False,
            ) as response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Reply(response.status, headers, await _content(call, response))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            unsent = isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError))
            failed = ConnectionFailedError(
                f"{call.operation}: no answer from {self._address.base_url} ({type(error).__name__})", not unsent
            )
            failed.__cause__ = error
            return failed

    def _open(self) -> aiohttp.ClientSession:
        if self.is_closed:
            raise RuntimeError("the client is closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                headers=self._address.headers,
                connector=aiohttp.TCPConnector(limit=self._connections),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
            # aiohttp would repeat PUT and DELETE by itself after a broken connection.
            self._session._retry_connection = False  # noqa: SLF001 - no public setting
        return self._session


async def _content(call: Call, response: aiohttp.ClientResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            raise UnexpectedAnswerError(f"{call.operation}: the answer has more than {MAX_BYTES} bytes")
    return b"".join(parts)
