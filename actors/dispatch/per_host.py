"""Limit of the connections to one host: deliveries wait for a connection before the clock of the attempt starts.

Connections to a host are capped. A delivery that waits for one of ours to come free is not kept waiting by the
receiver, so that time must not count against its `timeout_ms`: it would fail without ever having been sent.
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
        """Count the targets that somebody holds or waits for."""
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
