"""Target of a Redis URL: where it leads, and what the server is told before the first command."""

from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from actors.dispatch.connector import Connector, Origin
from actors.dispatch.resp.redis_connection import Connection
from actors.dispatch.resp.replies import RefusedError, write_command

DEFAULT_PORT = 6379


class CredentialsRefusedError(Exception):
    """The server does not let us in."""


class Target(NamedTuple):
    """A Redis database, and whose rights to use it with."""

    origin: Origin
    database: int
    username: str | None
    password: str | None


def read_target(url: str) -> Target:
    """Take a URL apart; raises ValueError, without the URL in its message."""
    try:
        parts = urlsplit(url)
        query = parse_qs(parts.query, keep_blank_values=True)
        database = int(query.pop("db", [parts.path.strip("/") or "0"])[0])
        if not parts.hostname or query or database < 0:
            raise ValueError  # noqa: TRY301 - the same answer as for what the parsers refuse
        origin = Origin(parts.scheme == "rediss", parts.hostname, parts.port or DEFAULT_PORT)
    except ValueError:
        raise ValueError("the Redis URL is not redis[s]://[[user]:password@]host[:port][/database]") from None
    username, password = (unquote(part) if part else None for part in (parts.username, parts.password))
    return Target(origin, database, username, password)


async def open_connection(
    connector: Connector, target: Target, on_unusable: Callable[[Connection], None]
) -> Connection:
    """Connect, log in and choose the database; raises DeliveryError, CredentialsRefusedError or as a call does."""
    connection = await connector.connect(target.origin, lambda: Connection(on_unusable))
    try:
        if target.username is not None or target.password is not None:
            await _log_in(connection, target)
        if target.database:
            await connection.call(write_command(["SELECT", str(target.database)]), _nothing)
        connection.check()  # the pool cannot forget what it does not have yet
    except BaseException:
        await connection.close()
        raise
    return connection


async def _log_in(connection: Connection, target: Target) -> None:
    names = [] if target.username is None else [target.username]
    try:
        await connection.call(write_command(["AUTH", *names, target.password or ""]), _nothing)
    except RefusedError as error:
        if error.is_passing:
            raise
        raise CredentialsRefusedError(str(error)) from None


def _nothing() -> None:
    """Greetings are no delivery: they need nobody's permission."""
