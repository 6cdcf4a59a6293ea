"""Connections: no more executions are claimed for a target than find a free connection soon."""

from collections.abc import Mapping

from app.queue.claiming.admission import NOTHING_OPENED, OPEN, AdmissionRule, Opened, Room
from app.queue.claiming.known_rules import FlowRules
from app.queue.claiming.partition import Lane
from brokers.known_targets import Targets
from brokers.sharing.fair_shares import Shares


class ConnectionAdmission(AdmissionRule):
    """As many as there are connections to a target, and as many again of endpoints that answer quickly.

    The second lot makes sure that no connection is idle until the next claim is answered. It is left out beside slower
    endpoints of the same target, and for sliding windows: what a window has counted must not wait for a connection.
    """

    def __init__(self, targets: Targets, shares: Shares, rules: FlowRules) -> None:
        self._targets = targets
        self._shares = shares
        self._rules = rules
        self._used: dict[str, int] = {}  # connections, by name of the target, or of an endpoint without one yet
        self._ahead: dict[str, int] = {}

    def begin(self, now: float) -> Opened:
        """Forget the counts of the claim before."""
        self._used.clear()
        self._ahead.clear()
        return NOTHING_OPENED

    def room(self, lane: Lane, now: float) -> Room:
        """Return how many more find a connection."""
        bound = self._targets.bound.get(lane.endpoint)
        if bound is not None and (bound.target.is_shut or not bound.has_turns):
            return OPEN
        limit = self._targets.limit if bound is None else min(self._targets.limit, bound.turns)
        name = lane.endpoint if bound is None else bound.name
        if name not in self._used:  # counted once: all of very many endpoints at a busy host are asked in each claim
            self._count(name, (lane.endpoint,) if bound is None else self._targets.sharing(name), limit)
        is_quick = lane.endpoint in self._shares.quick and lane.endpoint not in self._rules.windowed
        return Room(max(0, (limit + self._ahead[name] if is_quick else limit) - self._used[name]))

    def reserved(self, lane: Lane, slots: int) -> None:
        """Count what the claim takes."""
        bound = self._targets.bound.get(lane.endpoint)
        name = lane.endpoint if bound is None else bound.name
        if name in self._used:
            self._used[name] += slots

    def _count(self, name: str, sharing: tuple[str, ...], limit: int) -> None:
        held: Mapping[str, int] = self._shares.slots
        others, windowed = self._shares.others, self._rules.windowed
        self._used[name] = sum(held.get(endpoint, 0) for endpoint in sharing)
        slow = any(each in others or (each in windowed and each in self._shares.quick) for each in sharing)
        self._ahead[name] = 0 if slow else limit


class BreakerAdmission(AdmissionRule):
    """Nothing of a lane whose target's breaker is open, and one execution for its probe."""

    def __init__(self, targets: Targets, shares: Shares) -> None:
        self._targets = targets
        self._shares = shares
        self._closed = set[str]()

    def begin(self, now: float) -> Opened:
        """Open the endpoints whose breaker has closed."""
        if not self._closed:
            return NOTHING_OPENED
        opened = self._closed - self._targets.shut.keys()
        self._closed -= opened
        return Opened(opened)

    def room(self, lane: Lane, now: float) -> Room:
        """Return no room while the breaker is open, one for a probe of this process."""
        target = self._targets.shut.get(lane.endpoint)
        if target is None:
            return OPEN
        slots = self._targets.room_of_shut(target, lane.endpoint, self._shares.slots.get(lane.endpoint, 0))
        if slots:
            return Room(slots)
        self._closed.add(lane.endpoint)
        return Room(0, target.shut_until(now, lane.endpoint), of_endpoint=True)
