"""Shares: what a worker process has claimed and not yet ended, by endpoint, and how much more each may claim."""

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
from brokers.sharing.quota import Crowd, Pace, allowance, most, pace, reserve

REMEMBERED_SECONDS = 60.0  # how long an endpoint that holds nothing is remembered by its last end, at least
SURVEY_SECONDS = 0.005  # for so long the count of who wants slots is good enough
SURVEYED_SHARE = 10  # to count very many takes no more than this part of the time


class Held(Protocol):
    """What holds a slot: an attempt."""

    claim: Claim
    started_at: float  # when its delivery started, on time.monotonic(); 0.0 before


@dataclass(slots=True)
class _Share:
    """What runs of one endpoint, and how long its last delivery took."""

    held: dict[ClaimKey, Held] = field(default_factory=dict)  # in the order of their claims
    last_took: float | None = None
    ended_at: float = -math.inf


class _Nothing:
    """Stands for what runs of an endpoint of which nothing does."""

    started_at = 0.0


_NO_SHARE = _Share()
_ANSWERING = (Pace.QUICK, Pace.MIDDLING)


class Shares:
    """Shares the slots of a process between the endpoints that want them, over all queues; see `allowance`.

    A slot is reserved before the claim is sent and given back when the attempt ends, not when its result is written.
    An execution that was taken back and claimed again takes a slot for each of its attempts that has not ended here.

    A claim is certainly held while the lease holds, and for `stuck_seconds` from when it was asked for: after that
    another worker may have it.
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
        self._stuck_seconds = stuck_seconds
        self._lease = lease or Lease(math.inf, math.inf)
        self._inboxes = inboxes or Inboxes()
        self._clock = clock
        self._changed = threading.Condition()
        self._claims: dict[ClaimKey, tuple[float, str]] = {}  # until when it is held, on the clock; its endpoint
        self._newest: dict[str, ClaimKey] = {}
        self._shares: dict[str, _Share] = {}
        self._slots: dict[str, int] = {}
        self._taken = 0  # all slots
        self.slots: Mapping[str, int] = MappingProxyType(self._slots)
        # Endpoints that hold or want a slot: those that answer quickly, and the others.
        self.quick: frozenset[str] = frozenset()
        self.others: frozenset[str] = frozenset()
        self._wants: dict[str, Collection[str]] = {}
        self._crowd = Crowd(capacity, reserve(capacity), 0, 0, 0, 0, 0, is_answering=False)
        self._survey_at = self._forgot_at = -math.inf
        self._refused: set[str] = set()
        self._resting: dict[str, float] = {}  # endpoints that get no slots, and until when, on the clock

    def __len__(self) -> int:
        return len(self._claims)

    def in_use(self) -> int:
        """Return the slots that claims and reservations hold."""
        return sum(tuple(self._slots.values()))

    def utilization(self) -> float:
        """Return the slots in use as a share of the capacity."""
        return self.in_use() / self.capacity

    @property
    def most(self) -> int:
        """Return how many claims there may be at once, with the reserve."""
        return most(self.capacity)

    def want(self, queue: str, endpoints: Collection[str]) -> None:
        """Take in which endpoints of a queue have something due, before slots are reserved for some of them."""
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
                its_pace = pace(share.last_took, next(iter(share.held.values()), _Nothing).started_at, now)
                if its_pace is Pace.QUICK:
                    quick.append(endpoint)
                else:
                    others += slots
                slow += slots if its_pace is Pace.SLOW else 0
                is_answering = is_answering or (its_pace in _ANSWERING and endpoint in wanting)
            wants = sum(endpoint in wanting for endpoint in quick)
            crowd = self._crowd._replace(claimants=len(claimants), quick=wants, is_answering=is_answering)
            self._crowd = crowd._replace(held_by_others=others, held_by_slow=slow)
            self.quick, self.others = frozenset(quick), frozenset(claimants.difference(quick))
            self._survey_at = now + max(SURVEY_SECONDS, (self._clock() - now) * SURVEYED_SHARE)
            if not now < self._forgot_at + REMEMBERED_SECONDS:
                self._forget(now)

    def reserve(self, endpoint: str, slots: int) -> int:
        """Take up to so many slots for a claim about to be sent; returns how many."""
        with self._changed:
            share = self._shares.get(endpoint)
            if share is None:
                share = self._shares[endpoint] = _Share()
            now, started_at = self._clock(), next(iter(share.held.values()), _Nothing).started_at
            if self._resting and now < self._resting.get(endpoint, now):
                return 0
            its_pace, own = pace(share.last_took, started_at, now), self._slots.get(endpoint, 0)
            crowd = self._crowd = self._crowd._replace(capacity=self.capacity, in_flight=self._taken)
            room = min(slots, allowance(crowd, its_pace, own))
            if room <= 0:
                self._refused.add(endpoint)
                return 0
            self._slots[endpoint] = own + room
            self._taken += room
            if its_pace is not Pace.QUICK:
                slow = crowd.held_by_slow + room if its_pace is Pace.SLOW else crowd.held_by_slow
                self._crowd = crowd._replace(held_by_others=crowd.held_by_others + room, held_by_slow=slow)
            return room

    def rest(self, endpoint: str, seconds: float) -> None:
        """Give an endpoint no more slots for so long: this process cannot start its deliveries when it should."""
        with self._changed:
            self._resting[endpoint] = self._clock() + seconds

    def settle(self, reserved: Mapping[str, int], attempts: Collection[Held], asked_at: float) -> None:
        """Turn reserved slots into attempts that were asked for at an instant, and give the rest back."""
        with self._changed:
            before = self._taken
            slots, until = self._slots, asked_at + self._stuck_seconds
            for attempt in attempts:
                key, endpoint = attempt.claim.key, attempt.claim.endpoint
                self._claims[key] = until, endpoint
                self._newest[key.execution_id] = key
                self._shares[endpoint].held[key] = attempt
                slots[endpoint] += 1  # it was reserved
            for endpoint, count in reserved.items():
                left = slots.pop(endpoint, 0) - count
                if left:
                    slots[endpoint] = left
            self._taken += len(attempts) - sum(reserved.values())
            if self._refused and self._taken < before:
                self._wake_refused(before, reserved)

    def remove(self, claim: ClaimKey, took: float | None = None) -> None:
        """Give back the slot of a claim that ended, `took` seconds after its delivery started if it did."""
        with self._changed:
            _, endpoint = self._claims.pop(claim, (0.0, None))
            if endpoint is None:
                return
            share, before = self._shares[endpoint], self._taken
            del share.held[claim]
            self._taken -= 1
            left = self._slots.pop(endpoint) - 1
            if left:
                self._slots[endpoint] = left
            if took is not None:
                share.last_took, share.ended_at = took, self._clock()
            if self._newest.get(claim.execution_id) == claim:
                del self._newest[claim.execution_id]
            if not self._claims:
                self._changed.notify_all()
            if self._refused:
                self._wake_refused(before, (endpoint,))

    def holds(self, claim: ClaimKey) -> bool:
        """Return whether a claim is certainly held; may turn false early, since the database decides."""
        is_newest = self._newest.get(claim.execution_id) == claim
        return is_newest and self._clock() < min(self._claims.get(claim, (0.0,))[0], self._lease.valid_until)

    def claims(self) -> set[ClaimKey]:
        """List the claims in flight."""
        with self._changed:
            return set(self._claims)

    def wait_until_empty(self, timeout_seconds: float) -> bool:
        """Wait until every attempt has ended; False after the timeout."""
        with self._changed:
            return self._changed.wait_for(self._is_empty, timeout_seconds)

    def _is_empty(self) -> bool:
        return not self._claims

    def _forget(self, now: float) -> None:
        """Forget endpoints that hold nothing and have had no end for long."""
        self._forgot_at = now
        self._resting = {endpoint: until for endpoint, until in self._resting.items() if now < until}
        for endpoint in self._shares.keys() - self._slots.keys():
            if now - self._shares[endpoint].ended_at > REMEMBERED_SECONDS:
                del self._shares[endpoint]

    def _wake_refused(self, before: int, endpoints: Collection[str]) -> None:
        """Wake the consumers if slots were given back after a reservation was refused.

        Nothing else wakes them: a consumer asks again after a while, in case that others want less or are slower.
        """
        if before >= self.capacity or not self._refused.isdisjoint(endpoints):
            self._refused.clear()
            self._inboxes.tell_room()
