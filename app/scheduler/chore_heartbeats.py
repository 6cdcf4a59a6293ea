"""Signs of life of the chores that run, so that a process whose chore stands still does not only look alive."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

# In looks, of which there is one a second: longer than any statement takes, with all its repetitions.
PATIENCE_LOOKS = 300


class Signs:
    """Counts for how many looks each running chore has shown none, and for how many none was started.

    Not by a clock: while the whole process stands still, or its machine, nobody looks.
    """

    def __init__(self, patience: int = PATIENCE_LOOKS) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._running: dict[int, str] = {}  # by thread
        self._silent: dict[int, int] = {}
        self._idle = 0

    @contextmanager
    def running(self, chore: str) -> Iterator[None]:
        """Watch this chore, which runs on this thread, until the block is left."""
        me = threading.get_ident()
        with self._lock:
            self._running[me], self._silent[me] = chore, 0
            self._idle = 0
        try:
            yield
        finally:
            with self._lock:
                del self._running[me], self._silent[me]

    def show(self) -> None:
        """Show a sign of life of the chore on this thread, if one runs there."""
        with self._lock:
            if (me := threading.get_ident()) in self._silent:
                self._silent[me] = 0

    def look(self) -> str | None:
        """Count one look; returns what stands still, once it has done so for too long."""
        with self._lock:
            self._idle += 1
            for thread, chore in self._running.items():
                self._silent[thread] += 1
                if self._silent[thread] > self._patience:
                    return f"its chore {chore} stood still"
            return "it started no chore" if self._idle > self._patience else None
