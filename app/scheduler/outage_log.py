"""Outage log: logs once that the database is unreachable, not at every try of each chore."""

import logging
import threading

log = logging.getLogger(__name__)


class OutageLog:
    """Whether the database is unreachable, as all chores of the process see it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lasts = False
        self._ended = 0
        self._failing: set[str] = set()

    def count(self) -> int:
        """Count the outages that are over; a run remembers it to know whether its failure is old news."""
        return self._ended

    def begins(self, chore: str, reason: str, *, ended_before: int) -> None:
        """Note a failed run; the first of an outage is logged."""
        with self._lock:
            # A chore that failed the last time too, while others work, has a problem of its own, which was logged.
            news = chore not in self._failing and self._ended == ended_before
            self._failing.add(chore)
            first, self._lasts = news and not self._lasts, self._lasts or news
        if first:
            log.warning("%s: %s; the scheduler goes on trying", chore, reason)

    def is_over(self, chore: str) -> None:
        """Note a successful run; the first after an outage is logged."""
        with self._lock:
            self._failing.discard(chore)
            last, self._lasts = self._lasts, False
            self._ended += last
        if last:
            log.warning("the database answers again")
