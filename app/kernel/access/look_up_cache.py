"""Cache of look-ups: the latest results for texts that requests present as credentials."""

import threading
from typing import Generic, TypeVar

from cachetools import LRUCache

E = TypeVar("E")


class LookUpCache(Generic[E]):
    """Results by text; safe to use from several threads.

    Bad results have their own cache, so that a flood of them displaces no good result. A result stays after it has
    expired: a text that was good at its last look-up is always looked up again.
    """

    def __init__(self, size: int) -> None:
        self._good: LRUCache[str, E] = LRUCache(size)
        self._bad: LRUCache[str, E] = LRUCache(size)
        self._lock = threading.Lock()

    def find(self, text: str) -> E | None:
        """Return the latest result for a text; None without a look-up."""
        with self._lock:
            return self._good.get(text) or self._bad.get(text)

    def remember(self, text: str, result: E, *, is_good: bool) -> None:
        to, other = (self._good, self._bad) if is_good else (self._bad, self._good)
        with self._lock:
            to[text] = result
            other.pop(text, None)

    def forget(self, text: str) -> None:
        with self._lock:
            self._good.pop(text, None)
            self._bad.pop(text, None)
