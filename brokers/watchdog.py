"""Watchdog: ends a worker whose heartbeat or delivery loop has stalled."""

import time

from app.kernel.threads import BackgroundThread
from brokers.lease_heartbeat import GiveUp


class Watchdog(BackgroundThread):
    """Compares the signs of life of other threads with the clock, on a thread that waits for nothing else."""

    is_vital = True

    def __init__(self, longest_seconds: float, give_up: GiveUp) -> None:
        super().__init__("te-watchdog")
        self._longest = longest_seconds
        self._give_up = give_up
        self._watched: dict[str, BackgroundThread] = {}

    def watch(self, name: str, thread: BackgroundThread) -> None:
        """Watch one more thread; before start."""
        self._watched[name] = thread

    def run(self) -> None:
        """Compare the last signs of the threads with the clock, until it is stopped itself."""
        while not self.stopping.wait(self._longest / 8):
            now = time.monotonic()
            for name, thread in self._watched.items():
                silence = now - thread.last_sign()
                if silence > self._longest:
                    return self._give_up(f"its {name} stood still for {silence:.1f} s")
        return None
