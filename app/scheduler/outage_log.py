"""Outage log: logs once that the database is unreachable, not at every try of each chore."""

import logging
import threading

log = logging.getLogger(__name__)


class OutageLog:
    """Whether the database is unreachable, as all chores of the process see it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changes = 0  # counts beginnings and ends
        self._failing: set[str] = set()

    def count(self) -> int:
        """Count the beginnings and ends of outages; a run remembers it to know whether what it finds is old news."""
        return self._changes

    def begins(self, chore: str, reason: str, *, since: int) -> None:
        """Note a failed run; the first of an outage is logged. `since` is the count at its start."""
        with self._lock:
            # A chore that failed the last time too, while others work, has a problem of its own, which was logged.
            first = chore not in self._failing and self._changes == since and not self._lasts
            self._failing.add(chore)
            self._changes += first
        if first:
            log.warning("%s: %s; the scheduler goes on trying", chore, reason)

    def is_over(self, chore: str, *, since: int) -> None:
        """Note a successful run; the first after an outage is logged. `since` is the count at its start.

        One that began before the outage may have had its last answer then: it says nothing about now.
        """
        with self._lock:
            self._failing.discard(chore)
            last = self._lasts and self._changes == since
            self._changes += last
        if last:
            log.warning("the database answers again")

    @property
    def _lasts(self) -> bool:
        return self._changes % 2 == 1
