"""Wake-ups: idle workers claim new work before their next poll.

A wake-up may get lost; nothing depends on it. PostgreSQL sends wake-ups by NOTIFY, or Redis by pub/sub if
TE_WAKEUP_REDIS_URL is set. CockroachDB has no NOTIFY, so there Redis is the only way.

Every login of the database can listen and notify. So a wake-up holds no name of an endpoint and no limit key, and
workers drop each part that is not exactly as `encode` writes it.
"""

import hashlib
import logging
import math
import re
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from app.kernel.db import Database
from app.kernel.db.connection_pool import IDLE_SECONDS
from app.kernel.formats import EPOCH
from app.kernel.sql import statement
from app.kernel.threads import BackgroundThread
from schema.job_bounds import QUEUE_NAME

if TYPE_CHECKING:
    import redis

log = logging.getLogger(__name__)

CHANNEL = "te_wakeup"
# NOTIFY locks the whole database at commit: one for all queues per interval is enough.
MIN_INTERVAL_SECONDS = 0.005
REDIS_TIMEOUT_SECONDS = 2.0
REDIS_HEALTH_SECONDS = 15.0  # the second check detects a connection that was dropped silently

NOTIFY = statement("wakeup.notify", "SELECT pg_notify('te_wakeup', :queues)")

MAX_PARTS = 64
MAX_CHARACTERS = 7000  # more than MAX_PARTS parts have; PostgreSQL takes 8,000
_PART = re.compile(rf"({QUEUE_NAME.pattern[1:-1]})(?:\t([0-9a-f]{{16}})\t([0-9]{{1,13}}))?")


class Place(NamedTuple):
    """A partition, as `app.queue.claiming.partition` has it, and the `run_at` of an execution in it."""

    shard: int
    endpoint: str
    limit_key: str
    priority: int
    run_at: datetime


class Wakeup(NamedTuple):
    """A received wake-up: executions of `queue` are or soon become due.

    `digest` names their partition, and `run_at` is the earliest; both are None if the sender does not name them.
    """

    queue: str
    digest: str | None = None
    run_at: datetime | None = None


@lru_cache(maxsize=4096)
def digest_of(shard: int, endpoint: str, limit_key: str, priority: int) -> str:
    """Return the digest of a partition, as `te_enqueue` makes it too."""
    text = f"{shard}\t{endpoint}\t{limit_key}\t{priority}"
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:16]


Hints = dict[str, dict[str, int]]
"""By queue, the digests of partitions with the earliest `run_at` in ms; "" stands for any partition."""


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
        self._hints: Hints = {}

    def hint(self, queue: str, place: Place | None = None) -> None:
        """Send a wake-up: executions of `queue`, in the partition `place` if it is given, are or soon become due."""
        if self._is_off:
            return
        digest, run_at_ms = "", 0
        if place is not None:
            digest, run_at_ms = digest_of(*place[:4]), (place.run_at - EPOCH) // timedelta(milliseconds=1)
        with self._changed:
            now = time.monotonic()
            may_send = self._redis is None and not self._hints and now - self._sent_at >= MIN_INTERVAL_SECONDS
            payload = encode({queue: {digest: run_at_ms}})
            if may_send and self._database.fire_and_forget.send(NOTIFY, {"queues": payload}):
                self._sent_at = now
                return
            self.ensure_started()
            due = self._hints.setdefault(queue, {})
            due[digest] = min(run_at_ms, due.get(digest, run_at_ms))
            self._changed.notify()

    def run(self) -> None:
        """Send the collected wake-ups, at most once in MIN_INTERVAL_SECONDS."""
        while True:
            with self._changed:
                if not self._changed.wait_for(self._has_work, IDLE_SECONDS):
                    self._database.fire_and_forget.close_idle(IDLE_SECONDS)
                    continue
                early = self._sent_at + MIN_INTERVAL_SECONDS - time.monotonic()
            self.stopping.wait(max(0.0, early))
            with self._changed:
                if not self._hints:
                    return
                self._sent_at = time.monotonic()
                payload, fire_and_forget = encode(self._hints), self._database.fire_and_forget
                is_sent = self._redis is None and fire_and_forget.send(NOTIFY, {"queues": payload})
                if not is_sent and self._redis is None and fire_and_forget.is_open and not self.stopping.is_set():
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
            self._database.open_fire_and_forget()  # so that callers can send the next wake-ups themselves


def encode(hints: Mapping[str, Mapping[str, int]]) -> str:
    """Write the payload of wake-ups: `queue`, or `queue TAB digest TAB run_at in ms`, with commas between parts.

    Too many partitions are left out, and of too many queues some: their workers poll anyway.
    """
    parts = [
        f"{queue}\t{digest}\t{run_at_ms}" if digest else queue
        for queue, due in hints.items()
        for digest, run_at_ms in due.items()
    ]
    return ",".join(parts if len(parts) <= MAX_PARTS else sorted(hints)[:MAX_PARTS])


def decode(payload: str) -> tuple[set[Wakeup], int]:
    """Read a payload of any origin: the wake-ups, and the number of parts dropped because `encode` never writes them.

    Raises nothing.
    """
    if len(payload) > MAX_CHARACTERS:
        return set(), 1
    parts = payload.split(",")
    found = [match for part in parts[:MAX_PARTS] if (match := _PART.fullmatch(part))]
    read = {
        Wakeup(match[1], match[2], None if match[3] is None else EPOCH + timedelta(milliseconds=int(match[3])))
        for match in found
    }
    return read, len(parts) - len(found)


def redis_client(url: str, health_check_seconds: float = REDIS_HEALTH_SECONDS) -> "redis.Redis":
    """Return the client for wake-ups; it connects at its first command."""
    import redis  # noqa: PLC0415 - takes 0.1 s, and most processes need none

    return redis.Redis.from_url(
        url,
        socket_connect_timeout=REDIS_TIMEOUT_SECONDS,
        socket_timeout=REDIS_TIMEOUT_SECONDS,
        socket_keepalive=True,
        health_check_interval=health_check_seconds,
        decode_responses=True,
        encoding_errors="replace",  # a message of a stranger must not end the subscription
    )
