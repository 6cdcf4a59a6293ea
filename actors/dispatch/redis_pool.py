"""Connection pool of one Redis URL, which connects to checked addresses only and never retries by itself."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from redis._parsers.resp2 import _AsyncRESP2Parser
from redis.asyncio import BlockingConnectionPool, Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import InvalidResponse

from actors.dispatch.base import Network

DEFAULT_PORT = 6379
LONGEST_ANSWER = 65_536  # an answer to the script has 64 bytes at most; lines are bounded by asyncio, to as many


class _BoundedParser(_AsyncRESP2Parser):
    """Refuses answers that announce more than any answer to the script needs, before anything is kept for them."""

    async def _read(self, length: int) -> bytes:
        if not 0 <= length <= LONGEST_ANSWER:
            raise InvalidResponse(f"a string of {length} bytes")
        return bytes(await super()._read(length))

    async def _readline(self) -> bytes:
        line = bytes(await super()._readline())
        if line.startswith(b"*"):
            raise InvalidResponse("an array")
        return line


class _Guarded(Connection):
    """A connection to one of its host's addresses, each of which is checked before."""

    def __init__(self, *, network: Network, **options: Any) -> None:
        super().__init__(**options)
        self._network = network
        self._address = ""

    async def _connect(self) -> None:
        failure: OSError | None = None
        infos = await self._network.resolver.look_up(self.host, self.port)
        for info in self._network.guard.permitted(infos):
            self._address = info[4][0]
            try:
                await super()._connect()  # type: ignore[no-untyped-call]
            except OSError as error:
                failure = error
            else:
                return
        raise failure or OSError("the host has no address")

    def _connection_arguments(self) -> Mapping[str, Any]:
        arguments = {**super()._connection_arguments(), "host": self._address}
        if "ssl" in arguments:
            arguments["server_hostname"] = self.host  # the certificate is for the name, not for the address
        return arguments


class _GuardedTls(_Guarded, SSLConnection):
    """A guarded connection with TLS."""


def open_pool(url: str, network: Network) -> BlockingConnectionPool:
    """Make the pool of a URL; raises ValueError, without the URL in its message."""
    # redis-py's own parser would accept any connection option in the query, files and classes included.
    return BlockingConnectionPool(
        max_connections=network.connections_per_host,
        timeout=None,  # `Network.turn` lets no more in; without it the delivery's own timeout is the bound
        connection_class=_GuardedTls if url.lower().startswith("rediss:") else _Guarded,
        network=network,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=None,
        socket_connect_timeout=None,
        protocol=2,
        parser_class=_BoundedParser,
        **_target(url),
    )


def _target(url: str) -> dict[str, Any]:
    try:
        parts = urlsplit(url)
        query = parse_qs(parts.query, keep_blank_values=True)
        database = int(query.pop("db", [parts.path.strip("/") or "0"])[0])
        if not parts.hostname or query or database < 0:
            raise ValueError  # noqa: TRY301 - the same answer as for what the parsers refuse
        return {
            "host": parts.hostname,
            "port": parts.port or DEFAULT_PORT,
            "db": database,
            "username": unquote(parts.username) if parts.username else None,
            "password": unquote(parts.password) if parts.password else None,
        }
    except ValueError:
        raise ValueError("the Redis URL is not redis[s]://[[user]:password@]host[:port][/database]") from None
