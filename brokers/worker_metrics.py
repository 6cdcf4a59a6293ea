"""Metrics of a worker process: its counters start at zero, and gauges read its slots and its unwritten results."""

from functools import partial

from app.features.breakers.rules import TRANSITIONS
from app.kernel.metrics import series
from app.kernel.metrics.values import Values
from brokers.finalizer import Finalizer
from brokers.outcomes import ATTEMPT
from brokers.sharing.fair_shares import Shares
from schema.states import EndpointType

_COUNTERS = (
    *(series.LOST_LEASES, series.STALE, series.REFUSED, series.ABANDONED, series.RELEASED),
    *(series.ORPHANS, series.SOFT_LIMITS, series.EXECUTED),
)


def offer_metrics(values: Values, shares: Shares, finalizer: Finalizer) -> None:
    """Make the metrics of a process readable before its first delivery."""
    for counter in _COUNTERS:
        values.begin(counter)
    values.begin(series.FAILED, [ATTEMPT])
    values.begin(series.UNCERTAIN, EndpointType)
    for to, reason in TRANSITIONS:
        values.begin(series.BREAKERS, [to], [reason])
    values.read(series.IN_FLIGHT, shares.__len__)
    values.read(series.SLOTS, partial(getattr, shares, "capacity"))
    values.read(series.SLOTS_IN_USE, shares.in_use)
    values.read(series.UTILIZATION, shares.utilization)
    values.read(series.UNWRITTEN, finalizer.completions.__len__)
