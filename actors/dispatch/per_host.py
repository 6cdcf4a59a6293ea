"""Limit of connections per host: a delivery waits for a free one before the clock of its attempt starts.

The wait is caused by our limit and not by the receiver, so it must not count against `timeout_ms`: the attempt would
fail without having been sent.
"""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class PerHostLimit:
    """At most `limit` deliveries to one target at a time; first come, first served."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._targets: dict[Hashable, tuple[asyncio.Semaphore, set[object]]] = {}

    @property
    def targets_in_use(self) -> int:
        """Return the number of targets that deliveries hold or wait for."""
        return len(self._targets)

    @asynccontextmanager
    async def take(self, target: Hashable) -> AsyncIterator[None]:
        """Wait for a turn and hold it; a target that nobody holds or waits for is forgotten."""
        semaphore, users = self._targets.setdefault(target, (asyncio.Semaphore(self._limit), set()))
        me = object()
        users.add(me)
        try:
            async with semaphore:
                yield
        finally:
            users.discard(me)
            if not users:
                self._targets.pop(target, None)
