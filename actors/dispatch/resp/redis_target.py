"""Target of a Redis URL: where it leads, and what the server is told before the first command."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from actors.dispatch.connector import Connector, Origin
from actors.dispatch.resp.redis_connection import RedisConnection
from actors.dispatch.resp.replies import RefusedError, write_command

DEFAULT_PORT = 6379


class CredentialsRefusedError(Exception):
    """The server does not let us in."""


class RedisTarget(NamedTuple):
    """A Redis database, and whose rights to use it with."""

    origin: Origin
    database: int
    username: str | None
    password: str | None


def read_target(url: str) -> RedisTarget:
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
    return RedisTarget(origin, database, username, password)


async def open_connection(
    connector: Connector, target: RedisTarget, on_unusable: Callable[[RedisConnection], None]
) -> RedisConnection:
    """Connect, log in and choose the database; raises DeliveryError, CredentialsRefusedError or as a call does."""
    connection = await connector.connect(target.origin, partial(RedisConnection, on_unusable))
    try:
        if target.username is not None or target.password is not None:
            await _log_in(connection, target)
        if target.database:
            await connection.call(write_command(["SELECT", str(target.database)]))
        connection.check()  # the pool cannot forget what it does not have yet
    except BaseException:
        await connection.close()
        raise
    return connection


async def _log_in(connection: RedisConnection, target: RedisTarget) -> None:
    names = [] if target.username is None else [target.username]
    try:
        await connection.call(write_command(["AUTH", *names, target.password or ""]))
    except RefusedError as error:
        if error.is_passing:
            raise
        raise CredentialsRefusedError(str(error)) from None
