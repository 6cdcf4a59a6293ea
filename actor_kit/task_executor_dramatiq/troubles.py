"""Troubles with workers: lines in the log, and pauses before the next try."""

import logging
import threading

log = logging.getLogger("task_executor_dramatiq")

MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.05, 1.0
REFUSED_PAUSE_SECONDS = 30.0  # after refusals of all workers: they last until somebody changes the key or a worker
MAX_KNOWN = 100


class Troubles:
    """Troubles since the latest welcome of a worker; for one thread.

    Each is logged once, because a process may try again for days.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._pause_seconds = MIN_PAUSE_SECONDS
        self._refusals = 0  # in a row

    def log(self, line: str, level: int = logging.WARNING) -> None:
        """Log a trouble unless it is known."""
        if line in self._known:
            return
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known.add(line)
        log.log(level, "%s", line)

    def refused(self, reason: str, workers: int) -> None:
        """Note that one of several workers has refused this process."""
        self.log(f"{reason}; trying again", logging.ERROR)
        self._refusals += 1
        if self._refusals >= workers:
            self._pause_seconds, self._refusals = REFUSED_PAUSE_SECONDS, 0

    def end(self, worker: object) -> None:
        """Note the welcome of a worker, and log it after troubles."""
        self._pause_seconds, self._refusals = MIN_PAUSE_SECONDS, 0
        if self._known:
            self._known.clear()
            log.warning("the worker at %s takes this process", worker)

    def pause(self, closed: threading.Event) -> None:
        """Wait before the next try, unless the link is closed; the pauses grow until a worker answers."""
        closed.wait(self._pause_seconds)
        self._pause_seconds = min(2 * self._pause_seconds, MAX_PAUSE_SECONDS)
