"""Admission by target: its breaker, and its connections."""

import time

from app.queue.claiming.admission import NOTHING_OPENED, OPEN, AdmissionRule, Opened, Room
from app.queue.claiming.endpoint_rules import FlowRules
from app.queue.claiming.partition import Partition
from brokers.sharing.bindings import Bindings
from brokers.sharing.fair_shares import Shares
from brokers.target_state import TRY_SECONDS, Target
from brokers.worker_breakers import WorkerBreakers

ASK_SECONDS = 0.5


class TargetAdmission(AdmissionRule):
    """If the breaker is open: one execution at a time, for the probe. Otherwise: one execution per free connection.

    Quick endpoints may claim twice the number of connections, so that no connection is idle until the next claim is
    answered. This second half is left out beside slower endpoints of the same target, and for sliding windows: an
    execution that a window has counted must not wait for a connection.
    """

    def __init__(self, breakers: WorkerBreakers, bindings: Bindings, shares: Shares, rules: FlowRules) -> None:
        self._breakers = breakers
        self._bindings = bindings
        self._shares = shares
        self._rules = rules
        self._closed = set[str]()  # endpoints whose breaker is open
        self._seen: object = None
        # By name of the target, or of an endpoint without a known target; for one claim.
        self._used: dict[str, int] = {}
        self._ahead: dict[str, int] = {}

    def begin(self, now: float) -> Opened:
        """Return the endpoints whose breaker has closed, or that have another target now."""
        self._used.clear()
        self._ahead.clear()
        if self._seen is self._breakers.change or not self._closed:
            return NOTHING_OPENED
        self._seen = self._breakers.change
        opened = self._closed.difference(self._bindings.behind_open())
        self._closed -= opened
        return Opened(opened)

    def room(self, partition: Partition, now: float) -> Room:
        """Return the number of free connections; 1 for a probe."""
        endpoint, limit = partition.endpoint, self._bindings.limit
        bound = self._bindings.bound.get(endpoint)
        if bound is not None and bound.target.is_open:
            return self._room_for_probe(bound.target, endpoint, now)
        if bound is not None and not bound.has_turns:
            return OPEN
        shares, windowed = self._shares, self._rules.windowed
        name = endpoint if bound is None else bound.name
        if name not in self._used:  # once in a claim: it may ask for very many endpoints of one target
            sharing = (endpoint,) if bound is None else tuple(self._bindings.sharing[name])
            self._used[name] = sum(shares.slots.get(each, 0) for each in sharing)
            slow = any(each in shares.others or (each in windowed and each in shares.quick) for each in sharing)
            self._ahead[name] = 0 if slow else limit
        is_quick = endpoint in shares.quick and endpoint not in windowed
        return Room(max(0, (limit + self._ahead[name] if is_quick else limit) - self._used[name]))

    def reserved(self, partition: Partition, slots: int) -> None:
        """Count reserved connections; for a probe, claim no other execution for a while."""
        bound = self._bindings.bound.get(partition.endpoint)
        if bound is not None and bound.target.is_open:
            bound.target.try_at = time.monotonic() + TRY_SECONDS
            return
        name = partition.endpoint if bound is None else bound.name
        if name in self._used:
            self._used[name] += slots

    def _room_for_probe(self, target: Target, endpoint: str, now: float) -> Room:
        self._closed.add(endpoint)
        probe_at = target.probe_at(endpoint)
        # Asked again soon: another process may give back its probe.
        return Room(1) if now >= probe_at else Room(0, min(probe_at, now + ASK_SECONDS), of_endpoint=True)
