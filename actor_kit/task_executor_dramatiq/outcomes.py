"""Outcomes on their way to a worker: not sent for want of a connection, or sent and not yet answered."""

import threading
import time
from collections.abc import Callable
from itertools import islice

from task_executor_dramatiq.frames import MessageKey

MAX_OUTCOMES, MAX_BYTES = 10_000, 64 * 1024 * 1024
MAX_TOGETHER = 64  # in one write


class Outcomes:
    """Frames of the outcomes that the worker has not stored.

    The caller holds the lock, except for `send_waiting` and `wait`, which take it.
    """

    def __init__(self, lock: threading.RLock, write: Callable[[bytes], bool]) -> None:
        """Take the lock of the connection, and a function that writes to it and returns False if it is broken."""
        self._lock = lock
        self._write = write
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

    def send_waiting(self) -> None:
        """Send the outcomes that wait, for want of a start that would send them."""
        if self.unsent:
            with self._lock:
                self.send()

    def send(self, after: bytes = b"") -> None:
        """Send the outcomes that wait, by one write with a frame after them."""
        while len(self.unsent) > MAX_TOGETHER:
            if not self._write(b"".join([*islice(self.unsent.values(), MAX_TOGETHER)])):
                return
            self._sent(MAX_TOGETHER)
        if (together := b"".join([*self.unsent.values(), after])) and self._write(together):
            self._sent(len(self.unsent))

    def _sent(self, count: int) -> None:
        for key in [*islice(self.unsent, count)]:
            self._unanswered[key] = self.unsent.pop(key)

    def answered(self, key: MessageKey) -> None:
        """Note that the worker has stored or refused an outcome."""
        self._bytes -= len(self._unanswered.pop(key, b""))
        if not self._unanswered:
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
