"""The port for whatever else lives as long as a worker process: the delivery loop, the wake-up listener."""

from typing import Protocol


class Service(Protocol):
    """Started once, before the first claim; stopped once, after the last result was written."""

    def start(self) -> None:
        """Start; must not block."""

    def stop(self) -> None:
        """Stop, in bounded time."""
