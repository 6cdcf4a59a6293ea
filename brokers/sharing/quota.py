"""Quota: how many more slots of a worker process an endpoint may take now.

A process has TE_WORKER_MAX_CONCURRENT slots, and a reserve of a quarter more. A quick endpoint may use all
slots, because it gives them back soon, and its part of the reserve. Any other endpoint has an even share of the slots
and none of the reserve, so a quick endpoint finds a slot however many deliveries hang. A single endpoint may hold all
slots, quick or not.
"""

from enum import Enum, auto
from typing import NamedTuple

QUICK_SECONDS = 0.25
SLOW_SECONDS = 2.0


class Latency(Enum):
    """Latency class of an endpoint, by the durations of its last and its longest running delivery."""

    NEW = auto()  # no delivery has ended lately
    QUICK = auto()  # at most QUICK_SECONDS
    MEDIUM = auto()
    SLOW = auto()  # more than SLOW_SECONDS


class Load(NamedTuple):
    """Slots that all endpoints of a process hold and request together; `reserve` comes on top of `capacity`."""

    capacity: int
    reserve: int
    in_flight: int  # slots held
    claimants: int  # endpoints that hold or request a slot
    quick: int  # quick endpoints that request a slot
    held_by_others: int  # slots of endpoints that are not quick
    held_by_slow: int
    is_answering: bool  # a quick or medium endpoint requests a slot


def reserve(capacity: int) -> int:
    """Return the number of slots beyond the setting."""
    return max(1, capacity // 4)


def max_claims(capacity: int) -> int:
    """Return how many claims a process may hold at once, with the reserve."""
    return capacity + reserve(capacity)


def latency(last_took: float | None, started_at: float, now: float) -> Latency:
    """Return the class for the seconds of the last delivery (None: no recent one) and the longest running delivery.

    `started_at` is 0.0 if nothing runs.
    """
    runs = now - started_at if started_at else 0.0
    if last_took is None and runs <= QUICK_SECONDS:
        return Latency.NEW
    seconds = max(last_took or 0.0, runs)
    if seconds <= QUICK_SECONDS:
        return Latency.QUICK
    return Latency.MEDIUM if seconds <= SLOW_SECONDS else Latency.SLOW


def quota(load: Load, its_latency: Latency, own: int) -> int:
    """Return how many slots an endpoint that holds `own` may take in addition."""
    capacity, free = load.capacity, load.capacity - load.in_flight
    if its_latency is Latency.QUICK:
        # Free slots and a part of the reserve; at most the capacity.
        part = max(2, load.reserve // (2 * max(1, load.quick)))
        return max(0, min(free + load.reserve, capacity - own, max(0, free + own) + part - own))
    room = min(free, max(1, capacity // max(1, load.claimants)) - own)
    if its_latency is Latency.SLOW and load.is_answering:
        # Slow endpoints together keep to a fifth. The rate of an endpoint whose receiver takes 100 ms depends on its
        # slots; it would be left with its even share beside many endpoints that hang.
        return max(0, min(room, max(1, capacity // 5) - load.held_by_slow))
    if room <= 0 and its_latency is Latency.NEW and not own and free + load.reserve > 0:
        # A trial shows its latency, as long as trials hold little of the reserve.
        return int(load.held_by_others < capacity + max(1, load.reserve // 4))
    return max(0, room)
