"""Circuit breaker: while the database hangs, one caller at a time tries it, and the others fail at once.

Otherwise each thread would wait its full time, one caller after the other, and those who queue for a thread for ever.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from app.kernel.errors import UnavailableError


class DatabaseBreaker:
    """Whether the database is known to hang; closed (`is_open` is false) as long as it answers."""

    def __init__(self) -> None:
        self.is_open = False
        self._lock = threading.Lock()
        self._is_probed = False

    def trip(self) -> None:
        """Open the breaker: a caller waited in vain."""
        self.is_open = True

    def reset(self) -> None:
        """Close the breaker: the database has answered."""
        self.is_open = False

    @contextmanager
    def probe(self) -> Iterator[None]:
        """Let the block run; raises UnavailableError when the breaker is open and another caller is trying already."""
        with self._lock:
            mine = self.is_open
            if mine and self._is_probed:
                raise UnavailableError("the database does not answer; try again")
            self._is_probed = self._is_probed or mine
        try:
            yield
        finally:
            if mine:
                with self._lock:
                    self._is_probed = False
