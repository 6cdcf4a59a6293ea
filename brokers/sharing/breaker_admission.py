"""Admission by breakers: nothing is claimed for a target whose breaker is open, but an execution for its probe."""

import time

from app.queue.claiming.admission import NOTHING_OPENED, OPEN, AdmissionRule, Opened, Room
from app.queue.claiming.partition import Partition
from brokers.known_targets import Targets
from brokers.sharing.bindings import Bindings
from brokers.target_state import TRY_SECONDS

ASK_SECONDS = 0.5


class BreakerAdmission(AdmissionRule):
    """Nothing of an endpoint whose breaker is open; from its time on one execution at a time, for the probe."""

    def __init__(self, targets: Targets, bindings: Bindings) -> None:
        self._targets = targets
        self._bindings = bindings
        self._closed = set[str]()
        self._seen: object = None

    def begin(self, now: float) -> Opened:
        """Open the endpoints whose breaker has closed, or that lead elsewhere now."""
        if self._seen is self._targets.change or not self._closed:
            return NOTHING_OPENED
        self._seen = self._targets.change
        opened = {endpoint for endpoint in self._closed if self._bindings.open_target(endpoint) is None}
        self._closed -= opened
        return Opened(opened)

    def room(self, partition: Partition, now: float) -> Room:
        """Return no room while the breaker is open, one when this process may try to probe."""
        target = self._bindings.open_target(partition.endpoint)
        if target is None:
            return OPEN
        self._closed.add(partition.endpoint)
        probe_at = target.probe_at(partition.endpoint)
        # Asked again soon: another process may give back its probe.
        return Room(1) if now >= probe_at else Room(0, min(probe_at, now + ASK_SECONDS), of_endpoint=True)

    def reserved(self, partition: Partition, slots: int) -> None:
        """Claim no other execution for the same probe for a while."""
        target = self._bindings.open_target(partition.endpoint)
        if target is not None and slots:
            target.try_at = time.monotonic() + TRY_SECONDS
