"""Figures of a worker process: what can be read of it at any time, and what happens seldom."""

from typing import TYPE_CHECKING

from app.kernel.metrics import series
from brokers.attempt_counters import ATTEMPT

if TYPE_CHECKING:
    from brokers.worker_process import WorkerProcess

_SELDOM = (
    *(series.LOST_LEASES, series.STALE, series.REFUSED, series.ABANDONED),
    *(series.RELEASED, series.STRAYS, series.SOFT_LIMITS, series.EXECUTED),
    series.ENDS_HANDLED,
)


def offer(process: "WorkerProcess") -> None:
    """Let gauges be read, and what happens seldom be told before it does: a rate needs to have seen 0."""
    values, shares, finalizer = process.values, process.shares, process.finalizer
    for seldom in _SELDOM:
        values.add(seldom, amount=0)
    values.add(series.FAILED, ATTEMPT, amount=0)

    def in_use() -> int:
        return sum(tuple(shares.slots.values()))

    values.read(series.IN_FLIGHT, lambda: len(shares))
    values.read(series.SLOTS, lambda: shares.capacity)
    values.read(series.SLOTS_IN_USE, in_use)
    values.read(series.UTILIZATION, lambda: in_use() / shares.capacity)
    values.read(series.UNWRITTEN, lambda: finalizer.waiting)
