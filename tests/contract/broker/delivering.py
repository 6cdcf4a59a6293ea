"""Attempts that a consumer has claimed, and the catalog from which a worker prepares them."""

import threading
from collections import deque
from collections.abc import Sequence

from dramatiq.broker import MessageProxy

from app.catalog.crypto import SecretBox
from app.catalog.loader import Catalog
from app.kernel.db import Database
from brokers.attempt import Attempt
from brokers.consumer import ClaimConsumer
from brokers.discovery import TIMES, DiscoveryTimes
from brokers.worker_process import WorkerProcess
from tests.verdicts import success

OK = success({"status_code": 200, "body": "OK"})
LONG_MS = 60_000  # longer than any wait of these tests: only a wake-up ends the wait of a consumer


def attempts_of(message: MessageProxy | None) -> Sequence[Attempt]:
    """Return the attempts that a message carries; a claim of several executions is one message."""
    assert message is not None
    attempts: Sequence[Attempt] = message.args[0]
    return attempts


class Attempts:
    """A consumer of a queue, and an iterator over the attempts of its messages."""

    def __init__(self, process: WorkerProcess, queue: str = "http", times: DiscoveryTimes = TIMES) -> None:
        self.consumer = ClaimConsumer(process, queue, LONG_MS, times)
        self._unread: deque[Attempt] = deque()

    def next(self) -> Attempt:
        """Return the next attempt; wait until the consumer has claimed it."""
        if not self._unread:
            self._unread.extend(attempts_of(next(self.consumer)))
        return self._unread.popleft()

    def next_in_thread(self, received: list[Attempt]) -> threading.Thread:
        """Start a thread that waits for the next attempt and appends it to `received`."""
        thread = threading.Thread(target=lambda: received.append(self.next()), daemon=True)
        thread.start()
        return thread


def claimed(process: WorkerProcess, queue: str = "http") -> Attempt:
    return Attempts(process, queue).next()


def catalog_of(database: Database, box: SecretBox | None = None) -> Catalog:
    return Catalog(database, box, config_ttl_seconds=60, secret_ttl_seconds=60)
