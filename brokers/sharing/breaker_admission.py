"""Admission by breakers: claim nothing for a target whose breaker is open, except one execution for its probe."""

import time

from app.queue.claiming.admission import NOTHING_OPENED, OPEN, AdmissionRule, Opened, Room
from app.queue.claiming.partition import Partition
from brokers.sharing.bindings import Bindings
from brokers.target_state import TRY_SECONDS
from brokers.worker_breakers import WorkerBreakers

ASK_SECONDS = 0.5


class BreakerAdmission(AdmissionRule):
    """No capacity for endpoints behind an open breaker; after the open time, one execution at a time for the probe."""

    def __init__(self, breakers: WorkerBreakers, bindings: Bindings) -> None:
        self._breakers = breakers
        self._bindings = bindings
        self._closed = set[str]()
        self._seen: object = None

    def begin(self, now: float) -> Opened:
        """Open the endpoints whose breaker has closed, or that resolve to another target now."""
        if self._seen is self._breakers.change or not self._closed:
            return NOTHING_OPENED
        self._seen = self._breakers.change
        opened = {endpoint for endpoint in self._closed if self._bindings.open_target(endpoint) is None}
        self._closed -= opened
        return Opened(opened)

    def room(self, partition: Partition, now: float) -> Room:
        """Return a capacity of 0 while the breaker is open, and 1 when this process may try to probe."""
        target = self._bindings.open_target(partition.endpoint)
        if target is None:
            return OPEN
        self._closed.add(partition.endpoint)
        probe_at = target.probe_at(partition.endpoint)
        # Asked again soon: another process may release its probe.
        return Room(1) if now >= probe_at else Room(0, min(probe_at, now + ASK_SECONDS), of_endpoint=True)

    def reserved(self, partition: Partition, slots: int) -> None:
        """Claim no other execution for the same probe for a while."""
        target = self._bindings.open_target(partition.endpoint)
        if target is not None and slots:
            target.try_at = time.monotonic() + TRY_SECONDS
