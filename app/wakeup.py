"""Hints: tell idle workers that something became claimable, before their next poll.

They may be lost, and nothing depends on them. They travel by NOTIFY on PostgreSQL, or by Redis pub/sub when
TE_WAKEUP_REDIS_URL is set, which is the only way on CockroachDB: it has no NOTIFY.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Collection

import redis

from app.db import Database
from app.sql import statement
from app.threads import BackgroundThread

log = logging.getLogger(__name__)

CHANNEL = "te_wakeup"
# NOTIFY locks the whole database at commit: one for all queues per interval is enough.
MIN_INTERVAL_SECONDS = 0.005
REDIS_TIMEOUT_SECONDS = 2.0
REDIS_HEALTH_SECONDS = 15.0  # a link that was dropped silently is noticed at the second check

NOTIFY = statement("wakeup.notify", "SELECT pg_notify('te_wakeup', :queues)")

Send = Callable[[str], None]
SendAtOnce = Callable[[str], bool]


class Notifier(BackgroundThread):
    """Sends hints after the caller's commit; the first at once, more of them batched, by a thread of its own.

    The caller sends the first one itself where it need not wait for an answer: a thread woken for it would get the
    interpreter only once the caller has made its own answer.
    """

    def __init__(self, send: Send | None, send_at_once: SendAtOnce = lambda _payload: False) -> None:
        super().__init__("te-notifier")
        self._send = send
        self._send_at_once = send_at_once
        self._sent_at = -math.inf
        self._ready = threading.Condition()
        self._queues: set[str] = set()

    @classmethod
    def over(cls, database: Database, redis_url: str) -> "Notifier":
        """Return a notifier over Redis when its URL is set, else over NOTIFY on PostgreSQL, else over nothing."""
        if redis_url:
            return cls(_by_redis(redis_url))
        if database.is_cockroach:
            return cls(None)
        return cls(_by_notify(database), lambda payload: database.unawaited.send(NOTIFY, {"queues": payload}))

    def hint(self, queue: str) -> None:
        """Send a hint that an execution of `queue` may be claimable now or soon."""
        if self._send is None:
            return
        with self._ready:
            self.ensure_started()
            now = time.monotonic()
            if not self._queues and now - self._sent_at >= MIN_INTERVAL_SECONDS and self._send_at_once(queue):
                self._sent_at = now
                return
            self._queues.add(queue)
            self._ready.notify()

    def interrupt(self) -> None:
        """Wake the thread."""
        with self._ready:
            self._ready.notify()

    def run(self) -> None:
        """Send the gathered hints, at most once in a few milliseconds."""
        send = self._send
        while send is not None:
            with self._ready:
                self._ready.wait_for(lambda: self._queues or self.stopping.is_set())
                early = self._sent_at + MIN_INTERVAL_SECONDS - time.monotonic()
            self.stopping.wait(max(0.0, early))
            with self._ready:
                queues, self._queues = self._queues, set()
                self._sent_at = time.monotonic()
            if not queues:
                return
            try:
                send(encode(queues))
            except Exception as error:  # noqa: BLE001 - a hint may be lost, the thread that sends the next one may not
                log.debug("a wake-up was lost: %s", type(error).__name__)


def encode(queues: Collection[str]) -> str:
    """Write queue names as the payload of a hint."""
    return ",".join(sorted(queues))


def decode(payload: str) -> list[str]:
    """Read the queue names in a hint."""
    return payload.split(",")


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
