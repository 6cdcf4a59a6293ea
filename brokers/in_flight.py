"""What a worker process has in hand, and how much more it may claim."""

import threading
from collections.abc import Callable

from app.executions.model import ClaimKey
from brokers.attempt import Attempt


class InFlight:
    """Counts claims against TE_WORKER_MAX_CONCURRENT, over all queues of the process.

    A slot is taken before the claim is sent and given back when the attempt ends, not when its result is written.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._lock = threading.Condition()
        self._reserved = 0
        self._refused = False
        self._attempts: dict[str, Attempt] = {}
        self._on_room: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._attempts)

    def on_room(self, wake: Callable[[], None]) -> None:
        """Call `wake` when there is room again after a reservation was refused."""
        self._on_room.append(wake)

    def reserve(self, most: int) -> int:
        """Take up to `most` slots for a claim about to be sent; returns how many."""
        with self._lock:
            room = max(0, min(most, self._room()))
            self._refused = self._refused or not room
            self._reserved += room
            return room

    def settle(self, reserved: int, attempts: list[Attempt]) -> None:
        """Turn reserved slots into attempts and give the rest back."""
        with self._lock:
            self._reserved -= reserved
            for attempt in attempts:
                self._attempts[attempt.claim.execution_id] = attempt
            wakers = self._wakers()
        for wake in wakers:
            wake()

    def remove(self, attempt: Attempt) -> None:
        """Give back the slot of an attempt that ended."""
        with self._lock:
            current = self._attempts.get(attempt.claim.execution_id)
            if current is attempt:
                del self._attempts[attempt.claim.execution_id]
            if not self._attempts:
                self._lock.notify_all()
            wakers = self._wakers()
        for wake in wakers:
            wake()

    def in_hand(self) -> set[ClaimKey]:
        """List the claims in hand."""
        with self._lock:
            return {attempt.claim.key for attempt in self._attempts.values()}

    def wait_until_empty(self, timeout_seconds: float) -> bool:
        """Wait until every attempt has ended; False after the timeout."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._attempts, timeout_seconds)

    def _room(self) -> int:
        return self.capacity - self._reserved - len(self._attempts)

    def _wakers(self) -> list[Callable[[], None]]:
        """Take the callbacks that are due; the lock is held, so they are called by the caller after it."""
        if not self._refused or self._room() <= 0:
            return []
        self._refused = False
        return list(self._on_room)
