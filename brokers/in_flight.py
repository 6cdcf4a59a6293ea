"""Claims in flight: what a worker process has claimed and not yet ended, and how much more it may claim."""

import math
import threading
import time
from collections.abc import Callable, Collection

from app.executions.model import ClaimKey


class InFlight:
    """Counts claims against TE_WORKER_MAX_CONCURRENT, over all queues of the process.

    A slot is reserved before the claim is sent and given back when the attempt ends, not when its result is written.
    An execution that was taken back and claimed again takes a slot for each of its attempts that has not ended here.

    A claim is certainly held while `is_leased` says so and for `stuck_seconds` from when it was asked for: later it may
    have been taken back.
    """

    def __init__(
        self, capacity: int, *, stuck_seconds: float = math.inf, is_leased: Callable[[], bool] = lambda: True
    ) -> None:
        self.capacity = capacity
        self._stuck_seconds = stuck_seconds
        self._is_leased = is_leased
        self._changed = threading.Condition()
        self._reserved = 0
        self._refused = False
        self._claims: dict[ClaimKey, float] = {}  # with the instant until which it is held, on time.monotonic()
        self._newest: dict[str, ClaimKey] = {}
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

    def settle(self, reserved: int, claims: Collection[ClaimKey], asked_at: float) -> None:
        """Turn reserved slots into claims that were asked for at an instant, and give the rest back."""
        with self._changed:
            self._reserved -= reserved
            self._claims.update(dict.fromkeys(claims, asked_at + self._stuck_seconds))
            self._newest.update((claim.execution_id, claim) for claim in claims)
            if self._refused:
                self._wake_refused()

    def remove(self, claim: ClaimKey) -> None:
        """Give back the slot of a claim that ended."""
        with self._changed:
            self._claims.pop(claim, None)
            if self._newest.get(claim.execution_id) == claim:
                del self._newest[claim.execution_id]
            if not self._claims:
                self._changed.notify_all()
            if self._refused:
                self._wake_refused()

    def holds(self, claim: ClaimKey) -> bool:
        """Return whether a claim is certainly held; may turn false early, since the database decides."""
        is_newest = self._newest.get(claim.execution_id) == claim
        return is_newest and time.monotonic() < self._claims.get(claim, 0.0) and self._is_leased()

    def claims(self) -> set[ClaimKey]:
        """List the claims in flight."""
        with self._changed:
            return set(self._claims)

    def wait_until_empty(self, timeout_seconds: float) -> bool:
        """Wait until every attempt has ended; False after the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._claims, timeout_seconds)

    def _wake_refused(self) -> None:
        if self._reserved + len(self._claims) < self.capacity:
            self._refused = False
            for wake in list(self._wakers.values()):
                wake()
