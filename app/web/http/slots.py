"""Slots for the kept connections of a web process, in all and per API key."""

import threading
from collections import Counter
from enum import Enum, auto
from typing import Self


class Full(Enum):
    """Reason why no slot is free."""

    FOR_ALL = auto()
    FOR_KEY = auto()


class Slots:
    """Kept connections, limited in all and per API key; thread-safe."""

    def __init__(self, most: int, most_of_key: int) -> None:
        self._most = most
        self._most_of_key = most_of_key
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()  # slots by key, without zeros

    def take(self, key_id: str) -> Full | None:
        """Take a slot for a key; returns the reason if none is free."""
        with self._lock:
            if self._held.total() >= self._most:
                return Full.FOR_ALL
            if self._held[key_id] >= self._most_of_key:
                return Full.FOR_KEY
            self._held[key_id] += 1
            return None

    def close(self) -> None:
        """Refuse further slots."""
        with self._lock:
            self._most = 0

    def give_back(self, key_id: str) -> None:
        """Free a slot of a key."""
        with self._lock:
            self._held[key_id] -= 1
            if not self._held[key_id]:
                del self._held[key_id]


class Slot:
    """Slot of a request or connection: taken on demand, held until the end."""

    def __init__(self, slots: Slots, key_id: str | None = None) -> None:
        self._slots = slots
        self._key_id = key_id

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.give_back()

    def take(self, key_id: str) -> Full | None:
        """Take a slot unless one is held; returns the reason if none is free."""
        if self._key_id is not None:
            return None
        full = self._slots.take(key_id)
        self._key_id = key_id if full is None else None
        return full

    def moved(self) -> "Slot":
        """Transfer the held slot to a new object."""
        key_id, self._key_id = self._key_id, None
        return Slot(self._slots, key_id)

    def give_back(self) -> None:
        """Free the held slot, if any."""
        key_id, self._key_id = self._key_id, None
        if key_id is not None:
            self._slots.give_back(key_id)
