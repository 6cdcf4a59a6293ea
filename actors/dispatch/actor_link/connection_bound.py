"""Bound on the connections of processes at one listener: each takes a file of the worker, which its deliveries need."""

import logging
import time

from actors.open_files import MAX_ACTOR_PROCESSES
from app.kernel.formats import numbered

log = logging.getLogger(__name__)

LOG_SECONDS = 1.0  # between two lines about refused connections
REPEAT_SECONDS = 600.0  # between two lines of the same reason: a refused process tries again for days
MAX_REASONS = 100  # that are remembered


class ConnectionBound:
    """Count of the connections at one listener; belongs to the event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._logs_at = 0.0
        self._repeats_at: dict[str, float] = {}  # by reason

    def take(self) -> str | None:
        """Count a connection; return the reason for a refusal if it is one too many."""
        if self._count >= self._most:
            is_lower = self._most < MAX_ACTOR_PROCESSES
            or_files = ", or raise its limit of open files (LimitNOFILE, ulimit -n)" if is_lower else ""
            count = numbered(self._count, "connection")
            reason = f"the worker process has {count} of processes with actors, and may have no more"
            return f"{reason}: start more workers{or_files}"
        self._count += 1
        return None

    def leave(self) -> None:
        """Count the end of a connection."""
        self._count -= 1

    def note_refusal(self, place: object, reason: str) -> None:
        """Log a refused connection, at most each LOG_SECONDS, and an equal reason at most each REPEAT_SECONDS."""
        now = time.monotonic()
        if now < self._logs_at or now < self._repeats_at.get(reason, 0.0):
            return
        if len(self._repeats_at) >= MAX_REASONS:
            self._repeats_at.clear()
        self._logs_at, self._repeats_at[reason] = now + LOG_SECONDS, now + REPEAT_SECONDS
        log.warning("refusing a process at %s: %s", place, reason)
