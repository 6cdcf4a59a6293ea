"""Shares: the slots of a worker process that each endpoint holds, and how many more it may take."""

import math
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from app.kernel.function_types import Clock
from app.queue.executions.execution_model import Claim, ClaimKey
from brokers.inbox import Inboxes
from brokers.lease_heartbeat import Lease
from brokers.sharing.quota import Latency, Load, latency, quota, reserve

REMEMBERED_SECONDS = 60.0  # an endpoint without slots is remembered for at least this long after its last delivery
SURVEY_SECONDS = 0.005  # age up to which the load is not counted again
SURVEYED_SHARE = 10  # counting takes at most this part of the time


class Held(Protocol):
    """An attempt, which holds a slot; instants are on `time.monotonic()`."""

    claim: Claim
    started_at: float  # of its delivery; 0.0 before
    held_until: float  # from then on it may be reclaimed as stuck; -inf once it ended or was claimed again here


@dataclass(slots=True)
class _Share:
    """Running attempts of an endpoint, and the duration of its last delivery."""

    held: dict[ClaimKey, Held] = field(default_factory=dict)  # in the order of their claims
    last_took: float | None = None
    ended_at: float = -math.inf


class _Nothing:
    """Stands for the longest running attempt of an idle endpoint."""

    started_at = 0.0


_NO_SHARE = _Share()
_ANSWERING = (Latency.QUICK, Latency.MEDIUM)


class Shares:
    """Shares the slots of a process between the endpoints that request them, over all queues; see `quota`.

    A slot is reserved before the claim is sent and given back when the attempt ends, not when its result is written.
    An execution that was reclaimed and claimed again takes a slot for each of its attempts that has not ended here.
    A claim is held while `lease` holds, and for `stuck_seconds` from when it was sent: after that another worker may
    have reclaimed it.
    """

    def __init__(
        self,
        capacity: int,
        inboxes: Inboxes | None = None,
        *,
        stuck_seconds: float = math.inf,
        lease: Lease | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self.capacity = capacity
        self.lease = lease or Lease(math.inf, math.inf)
        self._stuck_seconds = stuck_seconds
        self._inboxes = inboxes or Inboxes()
        self._clock = clock
        self._lock = threading.RLock()  # taken without the calls that the condition makes
        self._changed = threading.Condition(self._lock)
        self._held: dict[ClaimKey, Held] = {}
        self._newest: dict[str, Held] = {}  # by execution
        self._shares: dict[str, _Share] = {}
        self._slots: dict[str, int] = {}
        self._taken = 0  # all slots
        self.slots: Mapping[str, int] = MappingProxyType(self._slots)
        # Endpoints that hold or request a slot: quick endpoints, and all other endpoints.
        self.quick: frozenset[str] = frozenset()
        self.others: frozenset[str] = frozenset()
        self._wants: dict[str, Collection[str]] = {}
        self._load = Load(capacity, reserve(capacity), 0, 0, 0, 0, 0, is_answering=False)
        self._survey_at = self._forgot_at = -math.inf
        self._refused: set[str] = set()
        self._resting: dict[str, float] = {}  # endpoints that get no slots, and until when

    def __len__(self) -> int:
        return len(self._held)

    def in_use(self) -> int:
        """Return the slots that claims and reservations hold."""
        return sum(tuple(self._slots.values()))

    def free(self) -> int:
        """Return the slots that nothing holds."""
        return self.capacity - self._taken

    def utilization(self) -> float:
        """Return the slots in use as a share of the capacity."""
        return self.in_use() / self.capacity

    def want(self, queue: str, endpoints: Collection[str]) -> None:
        """Set the endpoints of a queue with due executions, before slots are reserved for some of them."""
        with self._changed:
            self._wants[queue] = endpoints
            now = self._clock()
            if now < self._survey_at:
                return
            wanting = endpoints if len(self._wants) == 1 else set[str]().union(*self._wants.values())
            claimants = self._slots.keys() | wanting
            quick, others, slow, is_answering = list[str](), 0, 0, False
            for endpoint in claimants:
                slots, share = self._slots.get(endpoint, 0), self._shares.get(endpoint, _NO_SHARE)
                its_latency = latency(share.last_took, next(iter(share.held.values()), _Nothing).started_at, now)
                if its_latency is Latency.QUICK:
                    quick.append(endpoint)
                else:
                    others += slots
                slow += slots if its_latency is Latency.SLOW else 0
                is_answering = is_answering or (its_latency in _ANSWERING and endpoint in wanting)
            wants = sum(endpoint in wanting for endpoint in quick)
            load = self._load._replace(claimants=len(claimants), quick=wants, is_answering=is_answering)
            self._load = load._replace(held_by_others=others, held_by_slow=slow)
            self.quick, self.others = frozenset(quick), frozenset(claimants.difference(quick))
            self._survey_at = now + max(SURVEY_SECONDS, (self._clock() - now) * SURVEYED_SHARE)
            if not now < self._forgot_at + REMEMBERED_SECONDS:
                self._forget(now)

    def reserve(self, endpoint: str, slots: int) -> int:
        """Reserve up to `slots` slots for a claim about to be sent; return how many."""
        with self._changed:
            share = self._shares.get(endpoint)
            if share is None:
                share = self._shares[endpoint] = _Share()
            now, started_at = self._clock(), next(iter(share.held.values()), _Nothing).started_at
            if self._resting and now < self._resting.get(endpoint, now):
                return 0
            its_latency, own = latency(share.last_took, started_at, now), self._slots.get(endpoint, 0)
            load = self._load = self._load._replace(capacity=self.capacity, in_flight=self._taken)
            room = min(slots, quota(load, its_latency, own))
            if room <= 0:
                self._refused.add(endpoint)
                return 0
            self._slots[endpoint] = own + room
            self._taken += room
            if its_latency is not Latency.QUICK:
                slow = load.held_by_slow + room if its_latency is Latency.SLOW else load.held_by_slow
                self._load = load._replace(held_by_others=load.held_by_others + room, held_by_slow=slow)
            return room

    def rest(self, endpoint: str, seconds: float) -> None:
        """Give an endpoint no slots for a while: this process cannot start its deliveries in time."""
        with self._changed:
            self._resting[endpoint] = self._clock() + seconds

    def settle(self, reserved: Mapping[str, int], attempts: Collection[Held], asked_at: float) -> None:
        """Turn reserved slots into the attempts of a claim sent at an instant, and give the rest back."""
        with self._changed:
            before = self._taken
            slots, until = self._slots, asked_at + self._stuck_seconds
            for attempt in attempts:
                key, endpoint = attempt.claim.key, attempt.claim.endpoint
                if (older := self._newest.get(key.execution_id)) is not None:
                    older.held_until = -math.inf
                self._held[key] = self._newest[key.execution_id] = self._shares[endpoint].held[key] = attempt
                attempt.held_until = until
                slots[endpoint] += 1  # it was reserved
            for endpoint, count in reserved.items():
                left = slots.pop(endpoint, 0) - count
                if left:
                    slots[endpoint] = left
            self._taken += len(attempts) - sum(reserved.values())
            if self._refused and self._taken < before:
                self._wake_refused(before, reserved)

    def remove(self, claim: ClaimKey, took: float | None = None) -> None:
        """Give back the slot of an ended claim; `took` is the duration of its delivery in seconds, if it started."""
        with self._lock:
            attempt = self._held.pop(claim, None)
            if attempt is None:
                return
            attempt.held_until, endpoint, before = -math.inf, attempt.claim.endpoint, self._taken
            share = self._shares[endpoint]
            del share.held[claim]
            self._taken -= 1
            left = self._slots.pop(endpoint) - 1
            if left:
                self._slots[endpoint] = left
            if took is not None:
                share.last_took, share.ended_at = took, self._clock()
            if self._newest.get(claim.execution_id) is attempt:
                del self._newest[claim.execution_id]
            if not self._held:
                self._changed.notify_all()
            if self._refused:
                self._wake_refused(before, (endpoint,))

    def claims(self) -> set[ClaimKey]:
        """Return the claims in flight."""
        with self._changed:
            return set(self._held)

    def wait_until_empty(self, timeout_seconds: float) -> bool:
        """Wait until every attempt has ended; False after the timeout."""
        with self._changed:
            return self._changed.wait_for(self._is_empty, timeout_seconds)

    def _is_empty(self) -> bool:
        return not self._held

    def _forget(self, now: float) -> None:
        """Forget endpoints that hold nothing and whose last delivery ended long ago."""
        self._forgot_at = now
        self._resting = {endpoint: until for endpoint, until in self._resting.items() if now < until}
        for endpoint in self._shares.keys() - self._slots.keys():
            if now - self._shares[endpoint].ended_at > REMEMBERED_SECONDS:
                del self._shares[endpoint]

    def _wake_refused(self, before: int, endpoints: Collection[str]) -> None:
        """Wake the consumers if slots were given back after a refused reservation.

        Nothing else wakes them; a consumer tries again after a while, as other endpoints may request less by then.
        """
        if before >= self.capacity or not self._refused.isdisjoint(endpoints):
            self._refused.clear()
            self._inboxes.report_capacity()
