"""Allowance: how many more slots of a worker process an endpoint may take now.

A process has as many slots as TE_WORKER_MAX_CONCURRENT says, and a reserve beside them. An endpoint that answers
quickly may use all slots, because it gives them back soon, and its part of the reserve. Any other has an even share of
the slots and none of the reserve: however many deliveries hang, what answers quickly finds a slot. An endpoint alone
may hold all slots, quick or not.
"""

from enum import Enum, auto
from typing import NamedTuple

QUICK_SECONDS = 0.25
SLOW_SECONDS = 2.0


class Pace(Enum):
    """How long an endpoint keeps a slot, by its last end and by what runs longest."""

    NEW = auto()  # nothing has ended lately
    QUICK = auto()  # at most QUICK_SECONDS
    MIDDLING = auto()
    SLOW = auto()  # more than SLOW_SECONDS


class Crowd(NamedTuple):
    """What all endpoints of a process hold and want together; `reserve` comes on top of `capacity`."""

    capacity: int
    reserve: int
    in_flight: int  # slots that are held, by all
    claimants: int  # endpoints that hold or want a slot
    quick: int  # quick endpoints that want one
    held_by_others: int  # slots of endpoints that are not quick
    held_by_slow: int
    is_answering: bool  # a quick or a middling endpoint wants one


def reserve(capacity: int) -> int:
    """Return how many slots there are besides those of the setting."""
    return max(1, capacity // 4)


def most(capacity: int) -> int:
    """Return how many claims a process may hold at once: the slots of the setting and the reserve."""
    return capacity + reserve(capacity)


def pace(last_took: float | None, started_at: float, now: float) -> Pace:
    """Judge an endpoint by the seconds that its last delivery took, None for none lately, and by what runs longest.

    `started_at` is 0.0 where nothing runs.
    """
    runs = now - started_at if started_at else 0.0
    if last_took is None and runs <= QUICK_SECONDS:
        return Pace.NEW
    seconds = max(last_took or 0.0, runs)
    if seconds <= QUICK_SECONDS:
        return Pace.QUICK
    return Pace.MIDDLING if seconds <= SLOW_SECONDS else Pace.SLOW


def allowance(crowd: Crowd, its_pace: Pace, own: int) -> int:
    """Return how many slots an endpoint that holds `own` may take besides."""
    capacity, free = crowd.capacity, crowd.capacity - crowd.in_flight
    if its_pace is Pace.QUICK:
        # What the others leave, and its part of the reserve; alone it holds no more than anybody may.
        part = max(2, crowd.reserve // (2 * max(1, crowd.quick)))
        return max(0, min(free + crowd.reserve, capacity - own, max(0, free + own) + part - own))
    room = min(free, max(1, capacity // max(1, crowd.claimants)) - own)
    if its_pace is Pace.SLOW and crowd.is_answering:
        # Slow ones together keep to a fifth beside others: a single endpoint whose receiver takes 100 ms is as fast as
        # it has slots, and would be left with its even share beside many that hang.
        return max(0, min(room, max(1, capacity // 5) - crowd.held_by_slow))
    if room <= 0 and its_pace is Pace.NEW and not own and free + crowd.reserve > 0:
        # Let it show how quick it is, while such trials hold little of the reserve.
        return int(crowd.held_by_others < capacity + max(1, crowd.reserve // 4))
    return max(0, room)
