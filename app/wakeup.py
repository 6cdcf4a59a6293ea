"""Telling idle workers that something became claimable, without waiting for their next poll.

Hints only: they may be lost, and nothing depends on them. CockroachDB has no NOTIFY; there, polling is all.
"""

import logging
import os
import threading
import time

from app.db import Database
from app.errors import UnavailableError
from app.sql import statement

log = logging.getLogger(__name__)

CHANNEL = "te_wakeup"
# NOTIFY takes a lock over the whole database at commit: one per queue and interval is plenty.
MIN_INTERVAL_SECONDS = 0.005

NOTIFY = statement("wakeup.notify", "SELECT pg_notify('te_wakeup', :queues)")


class Notifier:
    """Sends hints from a thread of its own, after the caller's commit; the first at once, more of them batched."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ready = threading.Condition()
        self._queues: set[str] = set()
        self._pid = 0

    def hint(self, queue: str) -> None:
        """Say that an execution of `queue` may be claimable now or soon."""
        if self._database.is_cockroach:
            return
        with self._ready:
            self._queues.add(queue)
            self._ensure_thread()
            self._ready.notify()

    def _ensure_thread(self) -> None:
        # Started at the first hint and per process: gunicorn forks after the application may have been built.
        if self._pid != os.getpid():
            self._pid = os.getpid()
            threading.Thread(target=self._run, name="te-notifier", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._ready:
                self._ready.wait_for(lambda: self._queues)
                queues, self._queues = self._queues, set()
            try:
                self._database.fetch(NOTIFY, {"queues": ",".join(sorted(queues))})
            except UnavailableError as error:
                log.debug("a wake-up was lost: %s", error.message)
            time.sleep(MIN_INTERVAL_SECONDS)
