"""Redis Stream deliveries: one script looks for an earlier append of the execution, and appends if there is none."""

import hashlib
import math
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from redis import exceptions
from redis.asyncio import BlockingConnectionPool

from actors.dispatch.base import Dispatcher, Identity, Network
from actors.dispatch.egress import EgressRefusedError
from actors.dispatch.idle_pool import IDLE_SECONDS, IdlePool
from actors.dispatch.progress import Progress, bounded
from actors.dispatch.redis_pool import open_pool
from app.executions.model import DeliveryError
from app.formats import compact_json

# How much longer than the longest wait of its retry policy the note of a delivery is kept. Only a pause, a manual retry
# or an outage takes longer.
NOTE_SLACK_SECONDS = 3600

SCRIPT = Path(__file__).with_name("xadd_once.lua").read_text(encoding="utf-8")
_FOUND = "="  # before the id of an entry that an earlier attempt has appended
_SHA = hashlib.sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()  # how EVALSHA names a script

_ENTRY_ID = re.compile(rb"=?[0-9]{1,20}-[0-9]{1,20}")
# Another attempt would meet the same answer. Redis before 7 wraps the error of a command in one of the script.
_PERMANENT = re.compile(r"\b(WRONGTYPE|NOPERM|NOAUTH|WRONGPASS|CROSSSLOT|too many results to unpack)\b")


def open_dispatcher(network: Network) -> Dispatcher:
    """Make the dispatcher of Redis Streams."""
    return RedisStreamDispatcher(network)


class RedisStreamDispatcher:
    """Appends to streams; `send`, `sweep` and `close` belong to one event loop."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._pools = IdlePool[BlockingConnectionPool](BlockingConnectionPool.disconnect)

    async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Append one entry; on a retry after an unknown outcome, find the entry that is there already.

        Where its note may have expired since, the output says that the entry may be a duplicate.
        """
        url = spec["redis_url"]

        async def append(progress: Progress) -> str:
            async with self._pools.use(url, lambda: self._open(url)) as pool:
                return await _append(pool, _arguments(spec, identity), progress)

        async with self._network.turn(spec["timeout_ms"], url):
            reply = await bounded(spec["timeout_ms"], identity, _failure, append)
        output: dict[str, Any] = {"message_id": reply.removeprefix(_FOUND), "stream": spec["stream"]}
        since = identity.history.uncertain_since
        is_old = since is not None and time.monotonic() - since >= note_seconds(identity)
        if is_old and not reply.startswith(_FOUND):
            output["may_be_duplicate"] = True
        return output

    async def sweep(self, idle_seconds: float = IDLE_SECONDS) -> None:
        """Close the connections to URLs that have not been used for long."""
        await self._pools.sweep(idle_seconds)

    async def close(self) -> None:
        """Close every connection."""
        await self._pools.close()

    async def _open(self, url: str) -> BlockingConnectionPool:
        try:
            return open_pool(url, self._network)
        except ValueError as error:
            raise DeliveryError("CONNECTION_ERROR", str(error), permanent=True) from None


def note_seconds(identity: Identity) -> int:
    """Return for how long the note of a delivery is kept."""
    return NOTE_SLACK_SECONDS + math.ceil(identity.history.longest_wait_seconds)


def note_key(stream: str, execution_id: str) -> str:
    """Return the key of a delivery's note, which on a cluster lies in the hash slot of the stream.

    A key's slot is that of what stands between its first `{` and the `}` after it, or of the whole key. A
    stream with a `}` but no such part has no key in the same slot; a cluster answers CROSSSLOT for it.
    """
    has_tag = re.match(r"[^{]*\{[^}]+\}", stream) is not None
    return f"{stream if has_tag else '{' + stream + '}'}:te-once:{execution_id}"


def _arguments(spec: Mapping[str, Any], identity: Identity) -> list[str | int]:
    stream, max_len = spec["stream"], spec.get("max_len")
    trimming = "" if max_len is None else "~" if spec["approximate_trimming"] else "="
    pairs = [text for name, value in spec["fields_template"].items() for text in (name, _as_text(value))]
    if spec["metadata"]:
        pairs += [text for pair in identity.as_metadata().items() for text in pair]
    key = note_key(stream, identity.execution_id)
    return [2, stream, key, note_seconds(identity), trimming, max_len or 0, *pairs]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else compact_json(value)


async def _append(pool: BlockingConnectionPool, arguments: list[str | int], progress: Progress) -> str:
    """Run the script on a connection of its own.

    Not through redis-py's client, to know whether anything was sent when it fails.
    """
    connection = await pool.get_connection()
    try:
        progress.begin_sending()
        try:
            await connection.send_command("EVALSHA", _SHA, *arguments)
            reply = await connection.read_response()
        except exceptions.NoScriptError:
            await connection.send_command("EVAL", SCRIPT, *arguments)
            reply = await connection.read_response()
    finally:
        await pool.release(connection)
    if not isinstance(reply, bytes) or not _ENTRY_ID.fullmatch(reply):
        raise exceptions.InvalidResponse("not the id of an entry")
    return reply.decode()


def _failure(error: Exception, progress: Progress) -> DeliveryError:
    if isinstance(error, TimeoutError):
        return progress.timed_out("no answer came")
    if _caused_by(error, EgressRefusedError):
        return DeliveryError("CONNECTION_ERROR", f"cannot connect: {EgressRefusedError('')}", permanent=True)
    if isinstance(error, exceptions.AuthenticationError | exceptions.AuthorizationError | exceptions.NoPermissionError):
        return DeliveryError("STREAM_ERROR", "Redis refuses the credentials", quote=f": {error}", permanent=True)
    if isinstance(error, exceptions.ResponseError):
        code = getattr(error, "status_code", None) or ""
        quote = f": {code} {error}".replace("  ", " ").replace("\0", "")
        is_permanent = _PERMANENT.search(quote) is not None
        # An error is an answer: nothing was appended.
        return DeliveryError("STREAM_ERROR", "Redis answered with an error", quote=quote, permanent=is_permanent)
    if isinstance(error, exceptions.ConnectionError | OSError):
        doing = "the connection broke" if progress.is_sent else "cannot connect"
        # A Redis that has no room for a connection, or is still loading, says so in words of its own.
        own, quote = (f": {error}", "") if _caused_by(error, OSError) else ("", f": {error}")
        return DeliveryError("CONNECTION_ERROR", doing + own, quote=quote, may_have_been_delivered=progress.is_sent)
    # The text of an unforeseen exception may hold anything, also a secret: its type must do.
    return DeliveryError(
        "STREAM_ERROR", f"the delivery failed: {type(error).__name__}", may_have_been_delivered=progress.is_sent
    )


def _caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False
