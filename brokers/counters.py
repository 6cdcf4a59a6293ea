"""Counters of a worker process, logged once, when it shuts down."""

import threading
from collections import Counter


class Counters:
    """A thread-safe counter by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, name: str, amount: int = 1) -> None:
        """Add to a count."""
        with self._lock:
            self._counts[name] += amount

    def snapshot(self) -> dict[str, int]:
        """Copy all counts."""
        with self._lock:
            return dict(self._counts)
