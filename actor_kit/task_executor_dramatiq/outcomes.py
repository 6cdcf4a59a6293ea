"""Outcomes on their way to a worker: not sent for want of a connection, or sent and not yet answered."""

import threading
import time
from collections import deque

from task_executor_dramatiq.frames import MessageKey

MAX_UNSENT = 10_000


class Outcomes:
    """Outcomes that the worker has not stored; the caller holds the lock, but for `wait`."""

    def __init__(self, lock: threading.RLock) -> None:
        """Take the lock of the connection."""
        self.unsent = deque[bytes](maxlen=MAX_UNSENT)
        self._unanswered = set[MessageKey]()  # on the present connection
        self._changed = threading.Condition(lock)

    def sent(self, key: MessageKey) -> None:
        """Note that an outcome is sent."""
        self._unanswered.add(key)

    def answered(self, key: MessageKey) -> None:
        """Note that the worker has stored or refused an outcome."""
        self._unanswered.discard(key)
        self._changed.notify_all()

    def forget(self) -> None:
        """Expect no answer any more: the connection has ended."""
        self._unanswered.clear()
        self._changed.notify_all()

    def wait(self, seconds: float) -> int:
        """Wait until all outcomes are answered; returns how many are not."""
        until = time.monotonic() + seconds
        with self._changed:
            while self._unanswered and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            return len(self._unanswered)
