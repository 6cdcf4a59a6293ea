"""Hints: tell idle workers that something became claimable, before their next poll.

They may be lost, and nothing depends on them. They travel by NOTIFY on PostgreSQL, or by Redis pub/sub when
TE_WAKEUP_REDIS_URL is set, which is the only way on CockroachDB: it has no NOTIFY.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from urllib.parse import quote, unquote

import redis

from app.kernel.db import Database
from app.kernel.sql import statement
from app.kernel.threads import BackgroundThread

log = logging.getLogger(__name__)

CHANNEL = "te_wakeup"
# NOTIFY locks the whole database at commit: one for all queues per interval is enough.
MIN_INTERVAL_SECONDS = 0.005
REDIS_TIMEOUT_SECONDS = 2.0
REDIS_HEALTH_SECONDS = 15.0  # a link that was dropped silently is noticed at the second check

NOTIFY = statement("wakeup.notify", "SELECT pg_notify('te_wakeup', :queues)")

# PostgreSQL takes 8,000 bytes.
MOST_BYTES = 6000

Place = tuple[int, str, str, int]
"""A partition, as app.queue.claiming.partition has it: shard, endpoint, limit key and priority."""

Send = Callable[[str], None]
SendAtOnce = Callable[[str], bool]


class WakeupSender(BackgroundThread):
    """Sends hints after the caller's commit; the first at once, more of them batched, by a thread of its own.

    The caller sends the first one itself where it need not wait for an answer: a thread woken for it would get the
    interpreter only once the caller has made its own answer.
    """

    def __init__(self, send: Send | None, send_at_once: SendAtOnce | None = None) -> None:
        super().__init__("te-notifier")
        self._send = send
        self._send_at_once = send_at_once
        self._sent_at = -math.inf
        self._ready = threading.Condition()
        self._hints: dict[str, set[Place | None]] = {}

    @classmethod
    def over(cls, database: Database, redis_url: str) -> "WakeupSender":
        """Return a notifier over Redis when its URL is set, else over NOTIFY on PostgreSQL, else over nothing."""
        if redis_url:
            return cls(_by_redis(redis_url))
        if database.is_cockroach:
            return cls(None)
        return cls(_by_notify(database), partial(_notify_at_once, database))

    def hint(self, queue: str, place: Place | None = None) -> None:
        """Send a hint that something of `queue` may be claimable now or soon; at once, where its place is named."""
        if self._send is None:
            return
        with self._ready:
            self.ensure_started()
            now = time.monotonic()
            is_first = not self._hints and now - self._sent_at >= MIN_INTERVAL_SECONDS
            if is_first and self._send_at_once is not None and self._send_at_once(encode({queue: (place,)})):
                self._sent_at = now
                return
            self._hints.setdefault(queue, set()).add(place)
            self._ready.notify()

    def interrupt(self) -> None:
        """Wake the thread."""
        with self._ready:
            self._ready.notify()

    def _has_something(self) -> bool:
        return bool(self._hints) or self.stopping.is_set()

    def run(self) -> None:
        """Send the gathered hints, at most once in a few milliseconds."""
        send = self._send
        while send is not None:
            with self._ready:
                self._ready.wait_for(self._has_something)
                early = self._sent_at + MIN_INTERVAL_SECONDS - time.monotonic()
            self.stopping.wait(max(0.0, early))
            with self._ready:
                hints, self._hints = self._hints, {}
                self._sent_at = time.monotonic()
            if not hints:
                return
            try:
                send(encode(hints))
            except Exception as error:  # noqa: BLE001 - a hint may be lost, the thread that sends the next one may not
                log.debug("a wake-up was lost: %s", type(error).__name__)


def encode(hints: Mapping[str, Iterable[Place | None]]) -> str:
    """Write the payload of hints: names of queues, and where something is due in them; None where that is not known.

    Workers of an earlier version read the names alone.
    """
    parts = sorted(hints)
    for queue, places in hints.items():
        named = [place for place in places if place is not None]
        for shard, endpoint, limit_key, priority in named:
            parts.append(f"{queue}\t{shard}\t{quote(endpoint)}\t{quote(limit_key, safe='=')}\t{priority}")
        if named and len(named) < len(list(places)):
            parts.append(f"{queue}\t")
    payload = ",".join(parts)
    return payload if len(payload) <= MOST_BYTES else ",".join(sorted(hints))


def decode(payload: str) -> list[tuple[str, Place | None]]:
    """Read the hints in a payload: the queue of each, and the place where something is due; None: it may be any."""
    hints: list[tuple[str, Place | None]] = []
    parts = [part.split("\t") for part in payload.split(",")]
    placed = {queue for queue, *fields in parts if fields}
    for queue, *fields in parts:
        match fields:
            case [shard, endpoint, limit_key, priority] if shard.isdecimal() and priority.isdecimal():
                hints.append((queue, (int(shard), unquote(endpoint), unquote(limit_key), int(priority))))
            case _ if fields or queue not in placed:
                hints.append((queue, None))
    return hints


def redis_client(url: str) -> "redis.Redis":
    """Return the client that carries hints; it connects at its first command."""
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=REDIS_TIMEOUT_SECONDS,
        socket_timeout=REDIS_TIMEOUT_SECONDS,
        socket_keepalive=True,
        health_check_interval=REDIS_HEALTH_SECONDS,
        decode_responses=True,
    )


def _notify_at_once(database: Database, payload: str) -> bool:
    return database.unawaited.send(NOTIFY, {"queues": payload})


def _by_notify(database: Database) -> Send:
    def send(payload: str) -> None:
        database.fetch(NOTIFY, {"queues": payload})
        # Later ones need not wait for this thread.
        database.open_unawaited()

    return send


def _by_redis(url: str) -> Send:
    client = redis_client(url)

    def send(payload: str) -> None:
        client.publish(CHANNEL, payload)

    return send
