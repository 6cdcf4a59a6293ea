"""What a worker process has in hand, and how much more it may claim."""

import threading
from collections.abc import Callable

from brokers.attempt import Attempt


class Holdings:
    """Counts claims against TE_WORKER_MAX_CONCURRENT, over all queues of the process.

    A slot is taken before the claim is sent and given back when the attempt ends, not when its result is written.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._lock = threading.Condition()
        self._reserved = 0
        self._attempts: dict[str, Attempt] = {}
        self._on_room: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._attempts)

    def on_room(self, wake: Callable[[], None]) -> None:
        """Call `wake` each time a full process gets room again."""
        self._on_room.append(wake)

    def reserve(self, most: int) -> int:
        """Take up to `most` slots for a claim about to be sent; returns how many."""
        with self._lock:
            room = min(most, self.capacity - self._reserved - len(self._attempts))
            if room <= 0:
                return 0
            self._reserved += room
            return room

    def settle(self, reserved: int, attempts: list[Attempt]) -> None:
        """Turn reserved slots into attempts and give the rest back."""
        with self._lock:
            self._reserved -= reserved
            for attempt in attempts:
                self._attempts[attempt.claim.execution_id] = attempt

    def remove(self, attempt: Attempt) -> None:
        """Give back the slot of an attempt that ended."""
        with self._lock:
            was_full = len(self._attempts) + self._reserved >= self.capacity
            current = self._attempts.get(attempt.claim.execution_id)
            if current is attempt:
                del self._attempts[attempt.claim.execution_id]
            if not self._attempts:
                self._lock.notify_all()
        if was_full:
            for wake in self._on_room:
                wake()

    def in_hand(self) -> set[tuple[str, int]]:
        """List what is held, as (execution id, attempt)."""
        with self._lock:
            return {(a.claim.execution_id, a.claim.attempt) for a in self._attempts.values()}

    def wait_until_empty(self, timeout_seconds: float) -> bool:
        """Wait until every attempt has ended; False after the timeout."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._attempts, timeout_seconds)
