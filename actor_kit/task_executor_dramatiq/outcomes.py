"""Outcomes on their way to a worker: not sent for want of a connection, or sent and not yet answered."""

import threading
import time

from task_executor_dramatiq.frames import MessageKey

MAX_OUTCOMES, MAX_BYTES = 10_000, 64 * 1024 * 1024


class Outcomes:
    """Frames of the outcomes that the worker has not stored; the caller holds the lock, but for `wait`."""

    def __init__(self, lock: threading.RLock) -> None:
        """Take the lock of the connection."""
        self.unsent: dict[MessageKey, bytes] = {}
        self._unanswered: dict[MessageKey, bytes] = {}  # on the present connection
        self._bytes = 0  # of all these frames
        self._changed = threading.Condition(lock)

    def add(self, key: MessageKey, frame: bytes) -> None:
        """Keep an outcome until it is answered; beyond the bounds the oldest outcome is given up."""
        self.unsent[key] = frame
        self._bytes += len(frame)
        while len(self._unanswered) + len(self.unsent) > MAX_OUTCOMES or self._bytes > MAX_BYTES:
            oldest = self._unanswered or self.unsent
            self._bytes -= len(oldest.pop(next(iter(oldest))))

    def sent(self, key: MessageKey) -> None:
        """Note that an outcome is sent."""
        self._unanswered[key] = self.unsent.pop(key)

    def answered(self, key: MessageKey) -> None:
        """Note that the worker has stored or refused an outcome."""
        self._bytes -= len(self._unanswered.pop(key, b""))
        self._changed.notify_all()

    def end_connection(self, *, is_read: bool) -> None:
        """Send unanswered outcomes again by the next connection, unless the worker has read all before the end."""
        self.unsent = self.unsent if is_read else {**self._unanswered, **self.unsent}
        self._unanswered = {}
        self._bytes = sum(map(len, self.unsent.values()))
        self._changed.notify_all()

    def wait(self, seconds: float) -> int:
        """Wait until all sent outcomes are answered; returns how many outcomes the worker has not stored."""
        until = time.monotonic() + seconds
        with self._changed:
            while self._unanswered and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            return len(self._unanswered) + len(self.unsent)
