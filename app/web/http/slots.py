"""Places for the connections that wait in a web process, of which one API key may hold a part only."""

import threading
from collections import Counter
from collections.abc import Callable
from enum import Enum, auto
from typing import Self


class Full(Enum):
    """Why there is no place."""

    FOR_ALL = auto()
    FOR_KEY = auto()


class Places:
    """How many connections may wait, all together and of each key; any thread may ask."""

    def __init__(self, most: int, most_of_key: int, is_open: Callable[[], bool] = lambda: True) -> None:
        self._most = most
        self._most_of_key = most_of_key
        self._is_open = is_open
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()  # by key; those that hold none are not in it

    def take(self, key_id: str) -> Full | None:
        """Take a place for a key; returns why there is none."""
        with self._lock:
            if not self._is_open() or self._held.total() >= self._most:
                return Full.FOR_ALL
            if self._held[key_id] >= self._most_of_key:
                return Full.FOR_KEY
            self._held[key_id] += 1
            return None

    def give_back(self, key_id: str) -> None:
        """Give back one that was taken."""
        with self._lock:
            self._held[key_id] -= 1
            if not self._held[key_id]:
                del self._held[key_id]


class Place:
    """What a request or a connection has of them: one from when it asks until its end, or none."""

    def __init__(self, places: Places, key_id: str | None = None) -> None:
        self._places = places
        self._key_id = key_id

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.give_back()

    def take(self, key_id: str) -> Full | None:
        """Take one, unless this has one; returns why there is none."""
        if self._key_id is not None:
            return None
        full = self._places.take(key_id)
        self._key_id = key_id if full is None else None
        return full

    def moved(self) -> "Place":
        """Return another that has what this had."""
        key_id, self._key_id = self._key_id, None
        return Place(self._places, key_id)

    def give_back(self) -> None:
        """Give it back, if this has one."""
        key_id, self._key_id = self._key_id, None
        if key_id is not None:
            self._places.give_back(key_id)
