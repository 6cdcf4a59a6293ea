"""Throughput: deliveries per second within a period, and their cost in PostgreSQL."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.dev.process.child import Child
from benchmarks import machine
from benchmarks.arrivals import Arrivals
from benchmarks.contenders.contender import check
from benchmarks.contenders.flow_contenders import FlowContender

WARM = 100  # deliveries before the measurement
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Throughput:
    """Deliveries per second, and milliseconds of PostgreSQL's CPU time for each."""

    rate: float
    database_ms: float


def measure(
    contender: FlowContender,
    arrivals: Arrivals,
    seconds: float,
    *,
    workers: int = 1,
    most: int | None = None,
    beside: Callable[[], object] = bool,
) -> Throughput:
    """Run workers for `seconds` after their first deliveries, or until `most` deliveries have arrived.

    `beside` is called at the begin.
    """
    with contender.at_work(workers) as children:
        before, used, began = _begin(contender, arrivals, children)
        beside()
        while (left := began + seconds - time.monotonic()) > 0 and not _has_arrived(arrivals, most):
            time.sleep(min(left, _POLL_SECONDS if most else left))
        took, arrived = time.monotonic() - began, arrivals.counts()["arrived"] - before
        cpu = machine.cpu_seconds(contender.database_pid or 0) - used
        check(children)
    return Throughput(arrived / took, cpu / max(1, arrived) * 1000)


def _has_arrived(arrivals: Arrivals, most: int | None) -> bool:
    return most is not None and arrivals.counts()["arrived"] >= most


def _begin(contender: FlowContender, arrivals: Arrivals, children: Sequence[Child]) -> tuple[int, float, float]:
    arrivals.wait_for(WARM, check=lambda: check(list(children)))
    return arrivals.counts()["arrived"], machine.cpu_seconds(contender.database_pid or 0), time.monotonic()


def most_within(instants: Sequence[float], seconds: float) -> int:
    """Return the largest number of instants, given in order, within any period of `seconds`."""
    most = first = 0
    for last, instant in enumerate(instants):
        while instant - instants[first] >= seconds:
            first += 1
        most = max(most, last - first + 1)
    return most
