"""Wake-ups: idle workers claim new work before their next poll.

A wake-up may get lost; nothing depends on it. PostgreSQL sends wake-ups by NOTIFY, or Redis by pub/sub if
TE_WAKEUP_REDIS_URL is set. CockroachDB has no NOTIFY, so there Redis is the only way.
"""

import logging
import math
import threading
import time
from collections.abc import Iterable, Mapping
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
REDIS_HEALTH_SECONDS = 15.0  # the second check detects a connection that was dropped silently

NOTIFY = statement("wakeup.notify", "SELECT pg_notify('te_wakeup', :queues)")

MAX_BYTES = 6000  # PostgreSQL takes 8,000

Place = tuple[int, str, str, int]
"""A partition, as app.queue.claiming.partition has it: shard, endpoint, limit key and priority."""


class WakeupSender(BackgroundThread):
    """Sends wake-ups after the caller's commit, over Redis if its URL is set, else by NOTIFY; nothing on CockroachDB.

    The caller sends the first wake-up itself if it need not wait for an answer: the interpreter would switch to the
    thread only after the caller has made its own answer. The thread sends all others in batches.
    """

    def __init__(self, database: Database, redis_url: str) -> None:
        super().__init__("te-notifier")
        self._database = database
        self._redis = redis_client(redis_url) if redis_url else None
        self._is_off = self._redis is None and database.is_cockroach
        self._sent_at = -math.inf
        self._ready = threading.Condition()
        self._hints: dict[str, set[Place | None]] = {}

    def hint(self, queue: str, place: Place | None = None) -> None:
        """Send a wake-up: executions of `queue`, in the partition `place` if it is given, are or soon become due."""
        if self._is_off:
            return
        with self._ready:
            now = time.monotonic()
            may_send = self._redis is None and not self._hints and now - self._sent_at >= MIN_INTERVAL_SECONDS
            if may_send and self._database.unawaited.send(NOTIFY, {"queues": encode({queue: (place,)})}):
                self._sent_at = now
                return
            self.ensure_started()
            self._hints.setdefault(queue, set()).add(place)
            self._ready.notify()

    def interrupt(self) -> None:
        with self._ready:
            self._ready.notify()

    def run(self) -> None:
        """Send the collected wake-ups, at most once in MIN_INTERVAL_SECONDS."""
        while True:
            with self._ready:
                self._ready.wait_for(self._has_work)
                early = self._sent_at + MIN_INTERVAL_SECONDS - time.monotonic()
            self.stopping.wait(max(0.0, early))
            with self._ready:
                if not self._hints:
                    return
                self._sent_at = time.monotonic()
                payload, unawaited = encode(self._hints), self._database.unawaited
                is_sent = self._redis is None and unawaited.send(NOTIFY, {"queues": payload})
                if not is_sent and self._redis is None and unawaited.is_open and not self.stopping.is_set():
                    continue  # until the previous wake-up is answered: the pool may be exhausted
                self._hints = {}
            if is_sent:
                continue
            try:
                self._send(payload)
            except Exception as error:  # noqa: BLE001 - a wake-up may get lost, and the thread must survive
                log.debug("a wake-up was lost: %s", type(error).__name__)

    def _has_work(self) -> bool:
        return bool(self._hints) or self.stopping.is_set()

    def _send(self, payload: str) -> None:
        if self._redis is not None:
            self._redis.publish(CHANNEL, payload)
        else:
            self._database.fetch(NOTIFY, {"queues": payload})
            self._database.open_unawaited()  # so that callers can send the next wake-ups themselves


def encode(hints: Mapping[str, Iterable[Place | None]]) -> str:
    """Write the payload of wake-ups: names of queues, and their partitions with due executions; None: unknown.

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
    return payload if len(payload) <= MAX_BYTES else ",".join(sorted(hints))


def decode(payload: str) -> list[tuple[str, Place | None]]:
    """Read a payload: the queue of each wake-up, and its partition; None: any partition."""
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


def redis_client(url: str, health_check_seconds: float = REDIS_HEALTH_SECONDS) -> redis.Redis:
    """Return the client for wake-ups; it connects at its first command."""
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=REDIS_TIMEOUT_SECONDS,
        socket_timeout=REDIS_TIMEOUT_SECONDS,
        socket_keepalive=True,
        health_check_interval=health_check_seconds,
        decode_responses=True,
    )
