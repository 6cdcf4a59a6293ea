"""Figures of a worker process: what can be read of it at any time, and what happens seldom."""

from functools import partial
from typing import TYPE_CHECKING

from app.kernel.metrics import series
from brokers.outcomes import ATTEMPT

if TYPE_CHECKING:
    from brokers.worker_process import WorkerProcess

_SELDOM = (
    *(series.LOST_LEASES, series.STALE, series.REFUSED, series.ABANDONED),
    *(series.RELEASED, series.STRAYS, series.SOFT_LIMITS, series.EXECUTED),
    series.ENDS_HANDLED,
)


def offer(process: "WorkerProcess") -> None:
    """Let gauges be read, and what happens seldom be told before it does: a rate needs to have seen 0."""
    values, shares = process.values, process.shares
    for seldom in _SELDOM:
        values.add(seldom, amount=0)
    values.add(series.FAILED, ATTEMPT, amount=0)

    values.read(series.IN_FLIGHT, shares.__len__)
    values.read(series.SLOTS, partial(getattr, shares, "capacity"))
    values.read(series.SLOTS_IN_USE, shares.in_use)
    values.read(series.UTILIZATION, shares.utilization)
    values.read(series.UNWRITTEN, process.finalizer.conclusions.__len__)
