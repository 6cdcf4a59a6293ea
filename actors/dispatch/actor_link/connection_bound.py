"""Bound on the connections of processes at one listener: each takes a file of the worker, which its deliveries need."""

from app.kernel.formats import numbered


class ConnectionBound:
    """Count of the connections at one listener; belongs to the event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0

    def take(self) -> str | None:
        """Count a connection; return the reason for a refusal if it is one too many."""
        if self._count >= self._most:
            return (
                f"the worker process has {numbered(self._count, 'connection')} of processes with actors, and may have "
                "no more: start more workers, or raise its limit of open files (LimitNOFILE, ulimit -n)"
            )
        self._count += 1
        return None

    def leave(self) -> None:
        """Count the end of a connection."""
        self._count -= 1
