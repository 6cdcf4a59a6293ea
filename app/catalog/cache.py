"""A bounded cache whose entries end with a time to live, and with the catalogue revision that they were read under."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """Keeps the most recently used entries; safe to use from several threads."""

    def __init__(self, max_entries: int, ttl_seconds: float, clock: Callable[[], float]) -> None:
        self._entries: OrderedDict[K, tuple[V, float, int]] = OrderedDict()
        self._max_entries = max_entries
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        self._lock = threading.Lock()

    def get(self, key: K, revision: int) -> V | None:
        """Return the value unless it is too old or was read under an earlier revision."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            value, expires_at, read_under = entry
            if read_under < revision or self._clock() >= expires_at:
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return value

    def put(self, key: K, value: V, revision: int) -> None:
        """Keep a value; `revision` was known *before* it was read, so the value is at least that new."""
        with self._lock:
            self._entries[key] = value, self._clock() + self._ttl_seconds, revision
            self._entries.move_to_end(key)
            while len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)
