"""Connections: no more executions are claimed for a target than find a free connection soon."""

from collections.abc import Mapping

from app.queue.claiming.admission import NOTHING_OPENED, OPEN, AdmissionRule, Opened, Room
from app.queue.claiming.known_rules import FlowRules
from app.queue.claiming.partition import Partition
from brokers.sharing.bindings import Bindings
from brokers.sharing.fair_shares import Shares


class ConnectionAdmission(AdmissionRule):
    """As many as there are connections to a target, and as many again of endpoints that answer quickly.

    The second lot makes sure that no connection is idle until the next claim is answered. It is left out beside slower
    endpoints of the same target, and for sliding windows: what a window has counted must not wait for a connection.
    """

    def __init__(self, bindings: Bindings, shares: Shares, rules: FlowRules) -> None:
        self._bindings = bindings
        self._shares = shares
        self._rules = rules
        self._used: dict[str, int] = {}  # connections, by name of the target, or of an endpoint without one yet
        self._ahead: dict[str, int] = {}

    def begin(self, now: float) -> Opened:
        """Forget the counts of the claim before."""
        self._used.clear()
        self._ahead.clear()
        return NOTHING_OPENED

    def room(self, partition: Partition, now: float) -> Room:
        """Return how many more find a connection."""
        bound = self._bindings.bound.get(partition.endpoint)
        if bound is not None and (bound.target.is_open or not bound.has_turns):
            return OPEN
        limit = self._bindings.limit
        name = partition.endpoint if bound is None else bound.name
        if name not in self._used:  # counted once: all of very many endpoints at a busy host are asked in each claim
            self._count(name, (partition.endpoint,) if bound is None else self._bindings.sharing(name), limit)
        is_quick = partition.endpoint in self._shares.quick and partition.endpoint not in self._rules.windowed
        return Room(max(0, (limit + self._ahead[name] if is_quick else limit) - self._used[name]))

    def reserved(self, partition: Partition, slots: int) -> None:
        """Count what the claim takes."""
        bound = self._bindings.bound.get(partition.endpoint)
        name = partition.endpoint if bound is None else bound.name
        if name in self._used:
            self._used[name] += slots

    def _count(self, name: str, sharing: tuple[str, ...], limit: int) -> None:
        held: Mapping[str, int] = self._shares.slots
        others, windowed = self._shares.others, self._rules.windowed
        self._used[name] = sum(held.get(endpoint, 0) for endpoint in sharing)
        slow = any(each in others or (each in windowed and each in self._shares.quick) for each in sharing)
        self._ahead[name] = 0 if slow else limit
