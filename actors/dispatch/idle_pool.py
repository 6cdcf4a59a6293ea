"""Pool of shared targets: opened at the first use, closed after a long idle time or at a maximum age."""

import asyncio
import contextlib
import math
import random
import time
from collections.abc import Coroutine, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from app.kernel.function_types import Run


class Closable(Protocol):
    """Target of deliveries that can be closed."""

    async def close(self) -> None:
        """Close the target, after its last user."""


T = TypeVar("T", bound=Closable)

IDLE_SECONDS = 300.0
CLOSE_SECONDS = 2.0


@dataclass(slots=True)
class _Shared(Generic[T]):
    """A target or its opening, and its use."""

    opening: asyncio.Task[T]
    retires_at: float
    users: int = 0
    used_at: float = 0.0
    is_retired: bool = False

    def target(self) -> T | None:
        """Return the target once it is open."""
        opening = self.opening
        is_open = opening.done() and not opening.cancelled() and opening.exception() is None
        return opening.result() if is_open else None


class _Use(Generic[T]):
    """Use of a target by one delivery; a class, because a context manager of a generator takes four times as long."""

    def __init__(self, pool: "IdlePool[T]", key: Hashable, open_: Run[Coroutine[Any, Any, T]]) -> None:
        self._pool = pool
        self._key = key
        self._open = open_
        self._shared: _Shared[T]

    async def __aenter__(self) -> T:
        self._shared = shared = self._pool.lend(self._key, self._open)
        target = shared.target()
        if target is not None:
            return target
        try:
            # Other deliveries may wait for the opening too, so the time limit of one delivery does not cancel it.
            return await asyncio.shield(shared.opening)
        except BaseException:
            self._pool.take_back(shared)
            raise

    async def __aexit__(self, *_error: object) -> None:
        self._pool.take_back(self._shared)


def lifetime(max_age_seconds: float) -> float:
    """Return the seconds for which a new connection takes deliveries; they differ, so not all open at once."""
    return max_age_seconds * random.uniform(0.75, 1.0)


class IdlePool(Generic[T]):
    """Keeps one target per key; everything but the constructor belongs to one event loop."""

    def __init__(self, max_age_seconds: float = math.inf) -> None:
        """Take the age after which a target takes no new users; see `lifetime`."""
        self._max_age_seconds = max_age_seconds
        self._shared: dict[Hashable, _Shared[T]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def use(self, key: Hashable, open_: Run[Coroutine[Any, Any, T]]) -> _Use[T]:
        """Lend the target of a key; the first user opens it, and after a failure the next user."""
        return _Use(self, key, open_)

    def lend(self, key: Hashable, open_: Run[Coroutine[Any, Any, T]]) -> _Shared[T]:
        """Begin a use of a target, which may still be opening; `take_back` must follow."""
        shared = self._shared.get(key)
        if shared is not None and time.monotonic() >= shared.retires_at and shared.target() is not None:
            self._retire(key)
            shared = None
        if shared is None:
            retires_at = time.monotonic() + lifetime(self._max_age_seconds)
            shared = self._shared[key] = _Shared(asyncio.create_task(open_()), retires_at)
            shared.opening.add_done_callback(partial(self._forget_failed, key))
        shared.users += 1
        return shared

    def take_back(self, shared: _Shared[T]) -> None:
        """End a use."""
        shared.users -= 1
        shared.used_at = time.monotonic()
        if shared.is_retired:
            self._close_retired(shared)

    def forget(self, target: T) -> None:
        """Stop lending a broken target; the caller closes it."""
        self._shared = {key: shared for key, shared in self._shared.items() if shared.target() is not target}

    async def sweep(self, idle_seconds: float) -> None:
        """Close the targets that were idle for longer than the limit."""
        now = time.monotonic()
        idle = {
            key: target
            for key, shared in self._shared.items()
            if not shared.users and now - shared.used_at >= idle_seconds and (target := shared.target()) is not None
        }
        for key in idle:
            del self._shared[key]
        await self._close_all(idle.values())

    async def close(self) -> None:
        """Close every target and cancel all openings."""
        openings = [shared.opening for shared in self._shared.values()]
        self._shared.clear()
        for opening in openings:
            opening.cancel()
        opened = await asyncio.gather(*openings, return_exceptions=True)
        await self._close_all(target for target in opened if not isinstance(target, BaseException))

    def _retire(self, key: Hashable) -> None:
        """Lend a target no more; it is closed after its last user."""
        shared = self._shared.pop(key)
        shared.is_retired = True
        self._close_retired(shared)

    def _close_retired(self, shared: _Shared[T]) -> None:
        target = shared.target()
        if target is not None and not shared.users:
            closing = asyncio.create_task(self._close_all([target]))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def _close_all(self, targets: Iterable[T]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.gather(*(target.close() for target in targets), return_exceptions=True)

    def _forget_failed(self, key: Hashable, _opening: object) -> None:
        shared = self._shared.get(key)
        if shared is not None and shared.opening.done() and shared.target() is None:
            del self._shared[key]
