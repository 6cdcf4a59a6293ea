"""Claims in flight: what a worker process has claimed and not yet ended, and how much more it may claim."""

import threading
from collections.abc import Callable, Collection

from app.executions.model import ClaimKey


class InFlight:
    """Counts claims against TE_WORKER_MAX_CONCURRENT, over all queues of the process.

    A slot is reserved before the claim is sent and given back when the attempt ends, not when its result is written.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._changed = threading.Condition()
        self._reserved = 0
        self._refused = False
        self._claims: dict[str, ClaimKey] = {}
        self._wakers: dict[str, Callable[[], None]] = {}

    def __len__(self) -> int:
        return len(self._claims)

    def on_room(self, queue: str, wake: Callable[[], None]) -> None:
        """Call `wake` when there is room again after a reservation was refused; it must neither block nor call back.

        It replaces the one that the queue's last consumer gave.
        """
        self._wakers[queue] = wake

    def reserve(self, most: int) -> int:
        """Take up to `most` slots for a claim about to be sent; returns how many."""
        with self._changed:
            room = max(0, min(most, self.capacity - self._reserved - len(self._claims)))
            self._refused = self._refused or not room
            self._reserved += room
            return room

    def settle(self, reserved: int, claims: Collection[ClaimKey]) -> None:
        """Turn reserved slots into claims and give the rest back."""
        with self._changed:
            self._reserved -= reserved
            self._claims.update((claim.execution_id, claim) for claim in claims)
            self._wake_refused()

    def remove(self, claim: ClaimKey) -> None:
        """Give back the slot of a claim that ended."""
        with self._changed:
            if self._claims.get(claim.execution_id) == claim:
                del self._claims[claim.execution_id]
            if not self._claims:
                self._changed.notify_all()
            self._wake_refused()

    def claims(self) -> set[ClaimKey]:
        """List the claims in flight."""
        with self._changed:
            return set(self._claims.values())

    def wait_until_empty(self, timeout_seconds: float) -> bool:
        """Wait until every attempt has ended; False after the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._claims, timeout_seconds)

    def _wake_refused(self) -> None:
        if self._refused and self._reserved + len(self._claims) < self.capacity:
            self._refused = False
            for wake in list(self._wakers.values()):
                wake()
