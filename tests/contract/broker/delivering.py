"""What a worker has of a delivery: an attempt that a consumer claimed, and the catalogue that it is prepared from."""

import threading
from collections import deque
from collections.abc import Sequence

from dramatiq.broker import MessageProxy

from app.catalog.crypto import SecretBox
from app.catalog.loader import Catalog
from app.kernel.db import Database
from app.queue.executions.verdict import Verdict
from brokers.attempt import Attempt
from brokers.consumer import ClaimConsumer
from brokers.worker_process import WorkerProcess

OK = Verdict.success({"status_code": 200, "body": "OK"})
LONG_MS = 60_000  # far beyond any wait here: only a wake-up can end it


def of(message: MessageProxy | None) -> Sequence[Attempt]:
    """Return the attempts of a message, which carries several of a claim."""
    assert message is not None
    attempts: Sequence[Attempt] = message.args[0]
    return attempts


class Attempts:
    """A consumer of a queue, and those of its attempts that nobody has asked for yet."""

    def __init__(self, process: WorkerProcess, queue: str = "http") -> None:
        self.consumer = ClaimConsumer(process, queue, LONG_MS)
        self._rest: deque[Attempt] = deque()

    def next(self) -> Attempt:
        """Return the next attempt, once there is one."""
        if not self._rest:
            self._rest.extend(of(next(self.consumer)))
        return self._rest.popleft()

    def next_in_thread(self, got: list[Attempt]) -> threading.Thread:
        """Wait for the next attempt elsewhere."""
        thread = threading.Thread(target=lambda: got.append(self.next()), daemon=True)
        thread.start()
        return thread


def claimed(process: WorkerProcess, queue: str = "http") -> Attempt:
    return Attempts(process, queue).next()


def catalog_of(database: Database, box: SecretBox | None = None) -> Catalog:
    return Catalog(database, box, config_ttl_seconds=60, secret_ttl_seconds=60)
