"""Redis Stream deliveries: appended exactly once, because one script looks for an earlier append and appends."""

import asyncio
import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis import exceptions
from redis.asyncio import BlockingConnectionPool

from actors.dispatch.base import Identity
from actors.dispatch.egress import EgressGuard, EgressRefusedError
from actors.dispatch.redis_pool import open_pool
from actors.dispatch.resolver import Resolver
from app.executions.model import DeliveryError
from app.formats import compact_json

NOTE_SECONDS = 48 * 3600  # longer than any wait between two attempts
IDLE_SECONDS = 300.0

SCRIPT = Path(__file__).with_name("xadd_once.lua").read_text(encoding="utf-8")
_SHA = hashlib.sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()  # how EVALSHA names a script

# Another attempt would meet the same answer. Redis before 7 wraps the error of a command in one of the script.
_PERMANENT = re.compile(r"\b(WRONGTYPE|NOPERM|NOAUTH|WRONGPASS|CROSSSLOT|too many results to unpack)\b")


@dataclass(slots=True)
class _Target:
    """The pool of one URL and when it was used last."""

    pool: BlockingConnectionPool
    used_at: float
    in_use: int = 0


@dataclass(slots=True)
class _Progress:
    sent: bool = False


class RedisStreamDispatcher:
    """Appends to streams; `send`, `sweep` and `close` belong to one event loop."""

    def __init__(self, guard: EgressGuard, *, connections_per_host: int) -> None:
        self._guard = guard
        self._connections_per_host = connections_per_host
        self._resolver = Resolver()
        self._targets: dict[str, _Target] = {}

    async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Append one entry; on a retry after an unknown outcome, find the entry that is there already."""
        progress = _Progress()
        timeout_ms = spec["timeout_ms"]
        target = self._target(spec["redis_url"])
        target.in_use += 1
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                message_id = await _append(target.pool, _arguments(spec, identity), progress)
        except TimeoutError:
            doing = "no answer came" if progress.sent else "no connection could be made"
            raise DeliveryError(
                "TIMEOUT", f"{doing} within {timeout_ms} ms", may_have_been_delivered=progress.sent
            ) from None
        except Exception as error:  # noqa: BLE001 - whatever goes wrong on the way is a failed delivery
            raise _failure(error, sent=progress.sent) from None
        finally:
            target.in_use -= 1
            target.used_at = time.monotonic()
        return {"message_id": message_id, "stream": spec["stream"]}

    async def sweep(self, idle_seconds: float = IDLE_SECONDS) -> None:
        """Close the pools of URLs that have not been used for long."""
        now = time.monotonic()
        for url, target in list(self._targets.items()):
            if not target.in_use and now - target.used_at >= idle_seconds:
                del self._targets[url]
                await target.pool.disconnect()

    async def close(self) -> None:
        """Close every connection."""
        for target in self._targets.values():
            await target.pool.disconnect()
        self._targets.clear()
        await self._resolver.close()

    def _target(self, url: str) -> _Target:
        target = self._targets.get(url)
        if target is None:
            try:
                pool = open_pool(url, self._guard, self._resolver, self._connections_per_host)
            except ValueError as error:
                raise DeliveryError("CONNECTION_ERROR", str(error), permanent=True) from None
            target = self._targets[url] = _Target(pool, time.monotonic())
        return target


def note_key(stream: str, execution_id: str) -> str:
    """Name the note of a delivery so that it lies in the hash slot of the stream on a cluster.

    A key's slot is that of what stands between its first `{` and the `}` after it, or of the whole key. Only a
    stream with a `}` and no such part has no companion; a cluster answers CROSSSLOT for it.
    """
    has_tag = re.match(r"[^{]*\{[^}]+\}", stream) is not None
    return f"{stream if has_tag else '{' + stream + '}'}:te-once:{execution_id}"


def _arguments(spec: Mapping[str, Any], identity: Identity) -> list[str | int]:
    stream, max_len = spec["stream"], spec.get("max_len")
    trimming = "" if max_len is None else "~" if spec["approximate_trimming"] else "="
    pairs = [text for name, value in spec["fields_template"].items() for text in (name, _as_text(value))]
    key = note_key(stream, identity.execution_id)
    return [2, stream, key, NOTE_SECONDS, trimming, max_len or 0, *pairs]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else compact_json(value)


async def _append(pool: BlockingConnectionPool, arguments: list[str | int], progress: _Progress) -> str:
    """Run the script on a connection of its own.

    By hand and not with redis-py's client, to know whether anything was sent when it fails.
    """
    connection = await pool.get_connection()
    try:
        progress.sent = True
        try:
            await connection.send_command("EVALSHA", _SHA, *arguments)
            reply = await connection.read_response()
        except exceptions.NoScriptError:
            await connection.send_command("EVAL", SCRIPT, *arguments)
            reply = await connection.read_response()
    finally:
        await pool.release(connection)
    return str(reply, "ascii")


def _failure(error: Exception, *, sent: bool) -> DeliveryError:
    if _caused_by(error, EgressRefusedError):
        return DeliveryError("CONNECTION_ERROR", f"cannot connect: {EgressRefusedError('')}", permanent=True)
    if isinstance(error, exceptions.AuthenticationError | exceptions.AuthorizationError | exceptions.NoPermissionError):
        return DeliveryError("STREAM_ERROR", f"Redis refuses the credentials: {error}", permanent=True)
    if isinstance(error, exceptions.ResponseError):
        code = getattr(error, "status_code", None) or ""
        message = f"Redis answered: {code} {error}".replace("  ", " ").replace("\0", "")
        # An error is an answer: nothing was appended.
        return DeliveryError("STREAM_ERROR", message, permanent=_PERMANENT.search(message) is not None)
    if isinstance(error, exceptions.ConnectionError | OSError):
        doing = "the connection broke" if sent else "cannot connect"
        return DeliveryError("CONNECTION_ERROR", f"{doing}: {error}", may_have_been_delivered=sent)
    # The text of an unforeseen exception may hold anything, also a secret: its type must do.
    return DeliveryError("STREAM_ERROR", f"the delivery failed: {type(error).__name__}", may_have_been_delivered=sent)


def _caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False
