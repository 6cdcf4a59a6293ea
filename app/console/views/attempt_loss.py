"""Losses of attempts: the end of the worker's lease, the reclaim, and a result that came after it; pure."""

from datetime import datetime
from typing import NamedTuple

from app.queue.executions.execution_records import AttemptRecord
from app.queue.reading.holders import Holders

LOST = frozenset({"WORKER_LOST", "STUCK"})
NOBODY = Holders()


class Loss(NamedTuple):
    """The end of the worker's lease, and the arrival of the result, which was refused; None where unknown."""

    lease_until: datetime | None = None
    refused_at: datetime | None = None


def loss_of(tried: AttemptRecord, holders: Holders) -> Loss:
    """Return how an attempt was lost. A lease that the worker has renewed since says nothing about it."""
    if (tried.error or {}).get("type") not in LOST or tried.completed_at is None:
        return Loss()
    until = holders.leases.get(tried.worker_id or "")
    if until is not None and not tried.started_at <= until <= tried.completed_at:
        until = None
    refused_at = holders.refused.get(tried.attempt_number)
    return Loss(until, max(refused_at, tried.completed_at) if refused_at else None)
