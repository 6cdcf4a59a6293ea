"""Bounded cache whose entries end with a time to live, and with the catalogue revision that they were read under."""

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from cachetools import TTLCache

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """Keeps the most recently used entries of the newest revision; safe to use from several threads."""

    def __init__(self, max_entries: int, ttl_seconds: float, clock: Callable[[], float]) -> None:
        self._entries: TTLCache[K, V] = TTLCache(max_entries, ttl_seconds, clock)
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
                self._entries[key] = value

    def _advance(self, revision: int) -> None:
        if revision > self._revision:
            self._entries.clear()
            self._revision = revision
