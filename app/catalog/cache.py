"""Bounded cache: entries expire after a time to live, and when a newer catalog revision is read or written."""

import contextlib
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from cachetools import TTLCache

from app.kernel.function_types import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """Cache of the most recently used entries of the newest revision; safe to use from several threads.

    `max_weight` bounds the sum of the weights of all entries; a value that is heavier by itself is not kept.
    """

    def __init__(
        self,
        max_weight: int,
        ttl_seconds: float,
        clock: Clock,
        weight: Callable[[V], float] | None = None,
    ) -> None:
        self._entries: TTLCache[K, V] = TTLCache(max_weight, ttl_seconds, clock, *[weight] if weight else ())
        self._revision = 0
        self._lock = threading.Lock()

    def get(self, key: K, revision: int) -> V | None:
        """Return the value; None if it expired or was read under an earlier revision."""
        with self._lock:
            if revision > self._revision:
                self._begin(revision)
            return self._entries.get(key)

    def put(self, key: K, value: V, revision: int) -> None:
        """Keep a value; read `revision` *before* the value, so that the value is at least that new."""
        with self._lock:
            if revision > self._revision:
                self._begin(revision)
            if revision == self._revision:
                with contextlib.suppress(ValueError):  # too heavy
                    self._entries[key] = value

    def _begin(self, revision: int) -> None:
        self._entries.clear()
        self._revision = revision
