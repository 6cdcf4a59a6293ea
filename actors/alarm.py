"""Alarm: wakes the event loop at an instant.

Its own timers count in whole milliseconds, so that it would start a delivery almost one of them late on average.
"""

import math
import threading
import time

from app.kernel.function_types import Call
from app.kernel.threads import BackgroundThread


class Alarm(BackgroundThread):
    """Calls `ring` once, on its own thread, as soon as the instant has come that was set last."""

    is_vital = True

    def __init__(self, ring: Call) -> None:
        super().__init__("te-alarm")
        self._ring = ring
        self._changed = threading.Condition()
        self._at = math.inf

    def set(self, at: float) -> None:
        """Ring at an instant of `time.monotonic()`, and no more at one that was set before; from any thread."""
        with self._changed:
            self._at = at
            self._changed.notify()

    def interrupt(self) -> None:
        """Wake the thread."""
        with self._changed:
            self._changed.notify()

    def run(self) -> None:
        """Wait for the instant, and ring."""
        while not self.stopping.is_set():
            with self._changed:
                left = self._at - time.monotonic()
                if left > 0:
                    self._changed.wait(None if left == math.inf else left)
                    continue
                self._at = math.inf
            self._ring()
