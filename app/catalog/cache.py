"""Bounded cache whose entries end with a time to live, and with the catalogue revision that they were read under."""

import contextlib
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from cachetools import TTLCache

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """Keeps the most recently used entries of the newest revision; safe to use from several threads.

    `max_weight` bounds their number, or the sum of what `weight` says of each; what is heavier by itself is not kept.
    """

    def __init__(
        self,
        max_weight: int,
        ttl_seconds: float,
        clock: Callable[[], float],
        weight: Callable[[V], float] = lambda _value: 1,
    ) -> None:
        self._entries: TTLCache[K, V] = TTLCache(max_weight, ttl_seconds, clock, weight)
        self._revision = 0
        self._lock = threading.Lock()

    def get(self, key: K, revision: int) -> V | None:
        """Return the value unless it is too old or was read under an earlier revision."""
        with self._lock:
            self._advance(revision)
            return self._entries.get(key)

    def put(self, key: K, value: V, revision: int) -> None:
        """Keep a value; `revision` was known *before* it was read, so the value is at least that new."""
        with self._lock:
            self._advance(revision)
            if revision == self._revision:
                with contextlib.suppress(ValueError):  # too heavy
                    self._entries[key] = value

    def _advance(self, revision: int) -> None:
        if revision > self._revision:
            self._entries.clear()
            self._revision = revision
