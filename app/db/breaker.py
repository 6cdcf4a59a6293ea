"""While the database hangs, one caller at a time finds out whether it still does; the others are told at once.

Otherwise each thread would wait its full time, one caller after the other, and those who queue for a thread for ever.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from app.errors import UnavailableError


class Breaker:
    """Whether the database is known to hang."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_on = False
        self._is_probed = False

    def begins(self) -> None:
        """Note that somebody waited in vain."""
        self._is_on = True

    def ends(self) -> None:
        """Note that the database has answered."""
        self._is_on = False

    @contextmanager
    def probe(self) -> Iterator[None]:
        """Let the block run; raises UnavailableError when it hangs and somebody else is finding out already."""
        with self._lock:
            mine = self._is_on
            if mine and self._is_probed:
                raise UnavailableError("the database does not answer; try again")
            self._is_probed = self._is_probed or mine
        try:
            yield
        finally:
            if mine:
                with self._lock:
                    self._is_probed = False
