"""Redis Stream deliveries: a script checks for an earlier append of the execution, and appends if there is none."""

import asyncio
import hashlib
import math
import os
import re
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from actors.dispatch.base import Dispatcher, Identity
from actors.dispatch.connector import Connector, Origin
from actors.dispatch.idle_pool import IdlePool
from actors.dispatch.network import Network
from actors.dispatch.resp import OnUnusable, RedisConnection, RefusedError, UnreadableError, write_command
from actors.dispatch.send_progress import Progress, bounded
from app.kernel.formats import compact_json
from app.queue.executions.execution_model import DeliveryError

DEFAULT_PORT = 6379
# Lifetime of a delivery's marker beyond the longest wait of its retry policy. Only a pause, a manual retry or an outage
# lasts longer.
MARKER_SLACK_SECONDS = 3600

SCRIPT = Path(__file__).with_name("xadd_once.lua").read_text(encoding="utf-8")
_FOUND = "="  # precedes the id of an entry of an earlier attempt
_SHA = hashlib.sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()

_TAGGED = re.compile(r"[^{]*\{[^}]+\}")
_ENTRY_ID = re.compile(rb"=?[0-9]{1,20}-[0-9]{1,20}")
_CREDENTIAL_ERRORS = ("NOAUTH", "WRONGPASS", "NOPERM")
# Errors that another attempt would get again. Before version 7, Redis wraps the error of a command in a script's error.
# Those versions have appended the entry already if its marker cannot be written: each attempt would append one more.
_PERMANENT = re.compile(r"\b(WRONGTYPE|NOPERM|ACL failure|NOAUTH|WRONGPASS|CROSSSLOT|too many results to unpack)\b")


class _OpeningEndedError(Exception):
    """The delivery that opened the connection ran out of time."""


class RedisStreamDispatcher(Dispatcher):
    """Appends to streams; `send`, `sweep` and `close` belong to one event loop."""

    def __init__(self, network: Network) -> None:
        self._connector = Connector(network)
        self._pool: IdlePool[RedisConnection] = IdlePool(network.max_age_seconds)

    async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Append one entry; on a retry after an unknown outcome, find the entry of the earlier attempt.

        If its marker may have expired since, the output says that the entry may be a duplicate.
        """
        reply = await bounded(spec["timeout_ms"], identity, failure, partial(self._append, spec))
        output: dict[str, Any] = {"message_id": reply.removeprefix(_FOUND), "stream": spec["stream"]}
        since = identity.history.uncertain_since
        is_old = since is not None and time.monotonic() - since >= marker_seconds(identity)
        if is_old and not reply.startswith(_FOUND):
            output["may_be_duplicate"] = True
        return output

    async def _append(self, spec: Mapping[str, Any], progress: Progress) -> str:
        arguments = _arguments(spec, progress.identity)
        while True:
            try:
                async with self._pool.use(spec["redis_url"], partial(self._open, spec)) as connection:
                    return await _run_script(connection, arguments, progress)
            except _OpeningEndedError:
                await asyncio.sleep(0)  # the pool forgets it, and a delivery with time left opens another

    async def _open(self, spec: Mapping[str, Any]) -> RedisConnection:
        """Open the connection to a URL, for all deliveries that wait for it."""
        try:
            target = read_target(spec["redis_url"])
            async with asyncio.timeout(spec["timeout_ms"] / 1000):
                return await open_connection(self._connector, target, self._pool.forget)
        except ValueError as error:
            raise DeliveryError("CONNECTION_ERROR", str(error), permanent=True) from None
        except TimeoutError:
            raise _OpeningEndedError from None


async def _run_script(connection: RedisConnection, arguments: list[str], progress: Progress) -> str:
    try:
        reply = await connection.call(write_command(["EVALSHA", _SHA, *arguments]), progress)
    except RefusedError as error:
        if not str(error).startswith("NOSCRIPT"):
            raise
        progress.is_sent = False  # nothing was appended
        reply = await connection.call(write_command(["EVAL", SCRIPT, *arguments]), progress)
    if not _ENTRY_ID.fullmatch(reply):
        raise UnreadableError("not the id of an entry")
    return reply.decode()


def marker_seconds(identity: Identity) -> int:
    """Return the lifetime of a delivery's marker."""
    return MARKER_SLACK_SECONDS + math.ceil(identity.history.longest_wait_seconds)


def marker_key(stream: str, execution_id: str) -> str:
    """Return the key of a delivery's marker, which on a cluster has the hash slot of the stream.

    The slot depends on the part between the first `{` and the next `}`, or else on the whole key. A stream with a `}`
    but no such part has no key in the same slot; a cluster answers CROSSSLOT for it.
    """
    return f"{stream if _TAGGED.match(stream) else '{' + stream + '}'}:te-once:{execution_id}"


def _arguments(spec: Mapping[str, Any], identity: Identity) -> list[str]:
    stream, max_len = spec["stream"], spec.get("max_len")
    trimming = "" if max_len is None else "~" if spec["approximate_trimming"] else "="
    pairs = [
        text
        for name, value in spec["fields_template"].items()
        for text in (name, value if isinstance(value, str) else compact_json(value))
    ]
    if spec["metadata"]:
        pairs += [text for pair in identity.as_metadata().items() for text in pair]
    key = marker_key(stream, identity.execution_id)
    return ["2", stream, key, str(marker_seconds(identity)), trimming, str(max_len or 0), *pairs]


class CredentialsRefusedError(RefusedError):
    """Error reply to AUTH."""


class RedisTarget(NamedTuple):
    """A Redis database and the credentials for it."""

    origin: Origin
    database: int
    username: str | None
    password: str | None


def read_target(url: str) -> RedisTarget:
    """Parse a URL; raises ValueError, without the URL in its message."""
    try:
        parts = urlsplit(url)
        query = parse_qs(parts.query, keep_blank_values=True)
        database = int(query.pop("db", [parts.path.strip("/") or "0"])[0])
        if not parts.hostname or query or database < 0:
            raise ValueError  # noqa: TRY301 - the same error as of the parsers
        origin = Origin(parts.scheme == "rediss", parts.hostname, parts.port or DEFAULT_PORT)
    except ValueError:
        raise ValueError("the Redis URL is not redis[s]://[[user]:password@]host[:port][/database]") from None
    username, password = (unquote(part) if part else None for part in (parts.username, parts.password))
    return RedisTarget(origin, database, username, password)


async def open_connection(connector: Connector, target: RedisTarget, on_unusable: OnUnusable) -> RedisConnection:
    """Connect, log in and select the database; raises DeliveryError, CredentialsRefusedError, or like a call."""
    connection = await connector.connect(target.origin, partial(RedisConnection, on_unusable))
    names = [] if target.username is None else [target.username]
    log_in = ["AUTH", *names, target.password or ""] if names or target.password is not None else []
    select = ["SELECT", str(target.database)] if target.database else []
    command: list[str] = []
    try:
        for command in filter(None, (log_in, select)):
            await connection.call(write_command(command))
        connection.check()  # the pool cannot forget a connection that it does not have yet
    except BaseException as error:
        await connection.close()
        if isinstance(error, RefusedError) and command is log_in and not error.is_temporary:
            raise CredentialsRefusedError(str(error)) from None
        raise
    return connection


def failure(error: Exception, progress: Progress) -> DeliveryError:
    """Return the error of an append without the id of an entry; after an error reply nothing was appended."""
    type_, permanent, quote, is_sent = "STREAM_ERROR", False, "", progress.is_sent
    match error:
        case TimeoutError():
            return progress.timed_out("no answer came")
        case RefusedError():
            text, is_sent = str(error), False
            quote = f": {text}".replace("\0", "")
            if error.is_temporary:
                type_, message = "CONNECTION_ERROR", "Redis is not ready"
            elif isinstance(error, CredentialsRefusedError) or text.startswith(_CREDENTIAL_ERRORS):
                message, permanent = "Redis refuses the credentials", True
            else:
                message, permanent = "Redis answered with an error", _PERMANENT.search(text) is not None
        case UnreadableError():
            message = f"the target does not answer like a Redis server: {error}"
        case OSError():
            reason = os.strerror(error.errno) if error.errno else str(error)
            type_, message = "CONNECTION_ERROR", f"{'the connection broke' if is_sent else 'cannot connect'}: {reason}"
        case _:
            # The text of an unforeseen exception may contain anything, even a secret: only its type is shown.
            message = f"the delivery failed: {type(error).__name__}"
    return DeliveryError(type_, message, quote=quote, permanent=permanent, may_have_been_delivered=is_sent)
