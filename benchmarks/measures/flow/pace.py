"""Pace: how fast workers deliver while a time passes, and what that costs PostgreSQL."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.dev.process.child import Child
from benchmarks import machine
from benchmarks.arrivals import Arrivals
from benchmarks.contenders.contender import check
from benchmarks.contenders.crowd import Crowd

WARM = 100  # deliveries before it is taken
_LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Pace:
    """Deliveries a second, and ms of PostgreSQL's CPU time for each."""

    rate: float
    database_ms: float


def take(
    crowd: Crowd,
    arrivals: Arrivals,
    seconds: float,
    *,
    workers: int = 1,
    most: int | None = None,
    beside: Callable[[], object] = bool,
) -> Pace:
    """Let workers deliver what is due for so long, from the first deliveries on, or until `most` have come.

    `beside` is called in between.
    """
    with crowd.at_work(workers) as children:
        before, used, began = _begin(crowd, arrivals, children)
        beside()
        while (left := began + seconds - time.monotonic()) > 0 and not _has_come(arrivals, most):
            time.sleep(min(left, _LOOK_SECONDS if most else left))
        took, arrived = time.monotonic() - began, arrivals.counts()["arrived"] - before
        cpu = machine.cpu_seconds(crowd.database_pid or 0) - used
        check(children)
    return Pace(arrived / took, cpu / max(1, arrived) * 1000)


def _has_come(arrivals: Arrivals, most: int | None) -> bool:
    return most is not None and arrivals.counts()["arrived"] >= most


def _begin(crowd: Crowd, arrivals: Arrivals, children: Sequence[Child]) -> tuple[int, float, float]:
    arrivals.wait_for(WARM, check=lambda: check(list(children)))
    return arrivals.counts()["arrived"], machine.cpu_seconds(crowd.database_pid or 0), time.monotonic()


def most_within(instants: Sequence[float], seconds: float) -> int:
    """Return the most of these instants, which are in order, in any time of so many seconds."""
    most = first = 0
    for last, instant in enumerate(instants):
        while instant - instants[first] >= seconds:
            first += 1
        most = max(most, last - first + 1)
    return most
