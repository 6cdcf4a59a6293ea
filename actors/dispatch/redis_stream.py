"""Redis Stream deliveries: one script looks for an earlier append of the execution, and appends if there is none."""

import asyncio
import hashlib
import math
import re
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from actors.dispatch.base import Dispatcher, Identity, Network
from actors.dispatch.connector import Connector
from actors.dispatch.idle_pool import IDLE_SECONDS, IdlePool
from actors.dispatch.redis_outcome import failure
from actors.dispatch.resp.redis_connection import RedisConnection
from actors.dispatch.resp.redis_target import open_connection, read_target
from actors.dispatch.resp.replies import RefusedError, UnreadableError, write_command
from actors.dispatch.send_progress import Progress, bounded
from app.kernel.formats import compact_json
from app.queue.executions.execution_model import DeliveryError

# How much longer than the longest wait of its retry policy the note of a delivery is kept. Only a pause, a manual retry
# or an outage takes longer.
NOTE_SLACK_SECONDS = 3600

SCRIPT = Path(__file__).with_name("xadd_once.lua").read_text(encoding="utf-8")
_FOUND = "="  # before the id of an entry that an earlier attempt has appended
_SHA = hashlib.sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()  # how EVALSHA names a script

_TAGGED = re.compile(r"[^{]*\{[^}]+\}")
_ENTRY_ID = re.compile(rb"=?[0-9]{1,20}-[0-9]{1,20}")


def open_dispatcher(network: Network) -> Dispatcher:
    """Make the dispatcher of Redis Streams."""
    return RedisStreamDispatcher(network)


class _OpeningEndedError(Exception):
    """Whoever began to open a connection has run out of time."""


class RedisStreamDispatcher:
    """Appends to streams; `send`, `sweep` and `close` belong to one event loop."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._connector = Connector(network)
        self._connections = IdlePool(RedisConnection.close)

    async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Append one entry; on a retry after an unknown outcome, find the entry that is there already.

        Where its note may have expired since, the output says that the entry may be a duplicate.
        """
        timeout_ms = spec["timeout_ms"]
        async with self._network.turn(identity, timeout_ms, spec["redis_url"]):
            reply = await bounded(timeout_ms, identity, failure, partial(self._append, spec))
        output: dict[str, Any] = {"message_id": reply.removeprefix(_FOUND), "stream": spec["stream"]}
        since = identity.history.uncertain_since
        is_old = since is not None and time.monotonic() - since >= note_seconds(identity)
        if is_old and not reply.startswith(_FOUND):
            output["may_be_duplicate"] = True
        return output

    async def sweep(self, idle_seconds: float = IDLE_SECONDS) -> None:
        """Close the connections to URLs that have not been used for long."""
        await self._connections.sweep(idle_seconds)

    async def close(self) -> None:
        """Close every connection."""
        await self._connections.close()

    async def _append(self, spec: Mapping[str, Any], progress: Progress) -> str:
        arguments = _arguments(spec, progress.identity)
        while True:
            try:
                async with self._connections.use(spec["redis_url"], partial(self._open, spec)) as connection:
                    return await _run_script(connection, arguments, progress)
            except _OpeningEndedError:
                await asyncio.sleep(0)  # the pool forgets it, and who has time left begins anew

    async def _open(self, spec: Mapping[str, Any]) -> RedisConnection:
        """Open the connection to a URL, for all who wait for it by then."""
        try:
            target = read_target(spec["redis_url"])
            async with asyncio.timeout(spec["timeout_ms"] / 1000):
                return await open_connection(self._connector, target, self._connections.forget)
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


def note_seconds(identity: Identity) -> int:
    """Return for how long the note of a delivery is kept."""
    return NOTE_SLACK_SECONDS + math.ceil(identity.history.longest_wait_seconds)


def note_key(stream: str, execution_id: str) -> str:
    """Return the key of a delivery's note, which on a cluster lies in the hash slot of the stream.

    A key's slot is that of what stands between its first `{` and the `}` after it, or of the whole key. A
    stream with a `}` but no such part has no key in the same slot; a cluster answers CROSSSLOT for it.
    """
    return f"{stream if _TAGGED.match(stream) else '{' + stream + '}'}:te-once:{execution_id}"


def _arguments(spec: Mapping[str, Any], identity: Identity) -> list[str]:
    stream, max_len = spec["stream"], spec.get("max_len")
    trimming = "" if max_len is None else "~" if spec["approximate_trimming"] else "="
    pairs = [text for name, value in spec["fields_template"].items() for text in (name, _as_text(value))]
    if spec["metadata"]:
        pairs += [text for pair in identity.as_metadata().items() for text in pair]
    key = note_key(stream, identity.execution_id)
    return ["2", stream, key, str(note_seconds(identity)), trimming, str(max_len or 0), *pairs]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else compact_json(value)
