"""Calls over aiohttp, the extra `async`."""

import aiohttp
from yarl import URL

from .address import Address
from .answer import MOST_BYTES, Reply
from .call import Call
from .failures import ConnectionFailedError, UnexpectedAnswerError
from .transport import CONNECT_SECONDS


class AsyncTransport:
    """Connections to the service, of one event loop."""

    def __init__(self, address: Address, connections: int) -> None:
        self._address = address
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None
        self.is_closed = False

    async def close(self) -> None:
        """Close the connections; a call raises RuntimeError from then on."""
        self.is_closed = True
        if self._session is not None:
            await self._session.close()

    async def attempt(self, call: Call, timeout: float) -> Reply | ConnectionFailedError:
        """Send a call once; raises RuntimeError when closed, and UnexpectedAnswerError for an endless answer."""
        session = self._open()
        try:
            async with session.request(
                call.method,
                # As it is: the library would write an escaped slash in a name plainly.
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
            # It would send PUT and DELETE again by itself, and so do twice what may have been done.
            self._session._retry_connection = False  # noqa: SLF001 - nothing public turns it off
        return self._session


async def _content(call: Call, response: aiohttp.ClientResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise UnexpectedAnswerError(f"{call.operation}: the answer has more than {MOST_BYTES} bytes")
    return b"".join(parts)
