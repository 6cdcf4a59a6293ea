"""Idle check: one statement for all idle queues of a worker process, instead of a poll of each queue."""

import threading
import time
from math import inf

from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.queue.claiming.due_queues import due_queues
from app.queue.executions.watermark import PACE, SLACK, ScanPace
from brokers.inbox import Inboxes

EARLY = 0.9  # of the interval: the timers of the consumers differ by a tenth


class IdleCheck:
    """Finds due executions of idle queues, at most once in an interval; shared by the consumers of a process.

    The check reads from a watermark as a poll does, and from the start of the index at the pace of full scans. A queue
    with due executions is polled at once by its own consumer.
    """

    def __init__(
        self, database: Database, inboxes: Inboxes, *, interval_seconds: float, horizon_ms: int, pace: ScanPace = PACE
    ) -> None:
        self._database = database
        self._inboxes = inboxes
        self._interval = interval_seconds
        self._horizon_ms = horizon_ms
        self._pace = pace
        self._lock = threading.Lock()
        self._asked_at: dict[str, float] = {}  # by queue: the last request of its consumer, which is idle since then
        self._due = frozenset[str]()
        self._since = EPOCH
        self._checked_at = self._start_at = -inf

    def is_quiet(self, queue: str, now: float) -> bool:
        """Return whether nothing of a queue is due by the last check; checks again once the last one is old.

        Raises UnavailableError.
        """
        with self._lock:
            is_known = now - self._asked_at.get(queue, -inf) < 2 * self._interval
            self._asked_at[queue] = now
            if not is_known or now - self._checked_at >= self._interval * EARLY:
                self._check(now)
                for other in self._due - {queue}:
                    self._inboxes.wake(other)
            return queue not in self._due

    def _check(self, now: float) -> None:
        idle = [queue for queue, asked_at in self._asked_at.items() if now - asked_at < 2 * self._interval]
        from_start = now >= self._start_at
        try:
            found = due_queues(self._database, idle, EPOCH if from_start else self._since, self._horizon_ms)
        finally:
            if from_start:
                ended_at = time.monotonic()
                self._start_at = ended_at + max(self._interval / 2, self._pace.pause(ended_at - now))
        self._due, self._since, self._checked_at = found.queues, found.now - SLACK, now
