"""Admission of limits: how many executions of a lane the limits of its endpoint and of its key let through next."""

import itertools
import random
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from app.features.limits.limited_claim import claim_gated
from app.features.limits.store import UNBOUNDED, Gate, GateState, add, gates_of
from app.kernel.db import Database
from app.queue.claiming.admission import OPEN, AdmissionRule, ClaimRequest, Opened, Room
from app.queue.claiming.endpoint_rules import Rules
from app.queue.claiming.known_rules import FlowRules
from app.queue.claiming.partition import Lane, Wanted
from app.queue.claiming.taken import Taken

NS = 1_000_000_000
# Where a running execution has to end first. Ends in this process are told; ends elsewhere are not.
POLL_SECONDS = 0.2
MAX_KEY_POLL_SECONDS = 1.6
CONTENDED_SECONDS = 0.005  # after which a gate is asked again that another worker was going through
MAX_KNOWN = 20_000


class _Known(NamedTuple):
    """State of a gate: closed until an instant, and then open for so many; `polls` have found it full."""

    room: int
    closed_until: float = -inf
    polls: int = 0


class LimitAdmission(AdmissionRule):
    """The gates of one queue's lanes as its consumer knows them.

    The database decides how many go through a gate; this keeps the consumer from asking in vain. Lanes of endpoints
    without limits have no gates.
    """

    of_settings = True

    def __init__(self, rules: FlowRules, capacity: int) -> None:
        self._rules = rules
        self._max_ahead = max(1, capacity // 4)
        self._followed: Mapping[str, Rules] = {}
        self._freed: deque[tuple[str, str]] = deque()  # endpoints and keys; from any thread
        self._picked: Counter[str] = Counter()  # by gate: reserved for the claim that is about to be sent
        self._closed: defaultdict[str, set[Lane]] = defaultdict(set)  # by gate: the lanes that it keeps closed
        self._known: dict[str, _Known] = {}

    def begin(self, now: float) -> Opened:  # noqa: ARG002
        """Take in new rules, and executions that have ended."""
        self._picked.clear()
        opened = list[str]()
        if self._followed is not self._rules.by_endpoint:
            opened += self._follow_rules()
        while self._freed:
            endpoint, limit_key = self._freed.popleft()
            for gate_id in {endpoint, endpoint + limit_key}:
                known = self._known.get(gate_id)
                if known is not None and known.closed_until == -inf:
                    self._known[gate_id] = _Known(known.room + 1)
                elif known is not None and known.polls:
                    self._known[gate_id] = _Known(1)
                    opened.append(gate_id)
        return self._open(opened)

    def room(self, lane: Lane, now: float) -> Room:
        """Return the least that the gates of a lane may let through."""
        gates = self._gates(lane)
        if not gates:
            return OPEN
        slots = UNBOUNDED
        for gate in gates:
            known = self._known.get(gate.gate_id) or _Known(_at_first(gate))
            if known.closed_until > now:
                self._closed[gate.gate_id].add(lane)
                return Room(0, known.closed_until, of_endpoint=not gate.limit_key)
            slots = min(slots, known.room - self._picked[gate.gate_id])
        return Room(slots)

    def reserved(self, lane: Lane, slots: int) -> None:
        """Count what the claim takes through the gates of a lane."""
        for gate in self._gates(lane):
            self._picked[gate.gate_id] += slots

    def freed(self, ended: Sequence[tuple[str, str]]) -> None:
        """Note ends, which may let others run."""
        self._freed.extend(ended)

    def claims(self, lane: Lane) -> bool:
        """Return whether a lane has gates."""
        return bool(self._gates(lane))

    def claim(self, database: Database, wanted: Sequence[Wanted], request: ClaimRequest) -> Taken:
        """Claim through the gates of lanes."""
        return claim_gated(database, wanted=wanted, gates=self._gates_of_all(wanted), **request._asdict())

    def answered(self, database: Database, wanted: Sequence[Wanted], taken: Taken, now: float) -> None:
        """Learn the state of the gates, and add the rows of missing ones."""
        used: Counter[str] = Counter()
        for claim in taken.claims:
            used[claim.endpoint] += 1
            if claim.limit_key:
                used[claim.endpoint + claim.limit_key] += 1
        missing = list[str]()
        for gate in self._gates_of_all(wanted):
            state: GateState = taken.gates[gate.gate_id]
            if state.is_missing:
                missing.append(gate.gate_id)
                continue
            known = self._judge(gate, state, used[gate.gate_id], now)
            self._known.pop(gate.gate_id, None)
            self._known[gate.gate_id] = known  # as the newest
            self._closed.pop(gate.gate_id, None)
        if len(self._known) > MAX_KNOWN:
            # Without the older half, closed or not: the database decides, and is asked once in vain.
            self._known = dict(itertools.islice(self._known.items(), MAX_KNOWN // 2, None))
            for gate_id in self._closed.keys() - self._known.keys():
                del self._closed[gate_id]
        if missing:
            add(database, missing)

    def _gates(self, lane: Lane) -> list[Gate]:
        rules = self._rules.of(lane.endpoint)
        if rules is None or rules.limits is None:
            return []
        return gates_of(rules.limits, lane.endpoint, lane.limit_key, most_ahead=self._max_ahead)

    def _gates_of_all(self, wanted: Sequence[Wanted]) -> list[Gate]:
        return list({gate.gate_id: gate for one in wanted for gate in self._gates(one.lane)}.values())

    def _judge(self, gate: Gate, state: GateState, claimed: int, now: float) -> _Known:
        """Decide from the state that a claim has found when to come back, and for how many."""
        before = self._known.get(gate.gate_id)
        if not state.is_ours:
            return _Known(before.room if before else UNBOUNDED, now + CONTENDED_SECONDS * random.uniform(1.0, 2.0))
        room = state.room(gate, claimed)
        if room:
            return _Known(room)
        opens_in = state.opens_in_ns(gate, claimed)
        if opens_in is None:
            polls = 0 if claimed or before is None else before.polls
            wait = min(POLL_SECONDS * 2**polls, MAX_KEY_POLL_SECONDS) if gate.limit_key else POLL_SECONDS
            return _Known(1, now + wait * random.uniform(0.75, 1.25), polls + 1)
        # Starts that are given out ahead come in portions.
        portion = gate.ahead_ns // 2
        room = UNBOUNDED if gate.rate is None or gate.rate.is_sliding else 1 + portion // gate.rate.period_ns
        return _Known(room, now + (opens_in + portion) / NS)

    def _follow_rules(self) -> list[str]:
        """Forget the gates of endpoints whose rules have changed; returns the gates that kept lanes closed."""
        before, after = self._followed, self._rules.by_endpoint
        self._followed = after
        changed = {endpoint for endpoint in before.keys() | after.keys() if before.get(endpoint) != after.get(endpoint)}
        self._known = {gate_id: known for gate_id, known in self._known.items() if _endpoint_of(gate_id) not in changed}
        return [gate_id for gate_id in self._closed if _endpoint_of(gate_id) in changed]

    def _open(self, gate_ids: Sequence[str]) -> Opened:
        lanes = {lane for gate_id in gate_ids for lane in self._closed.pop(gate_id, ())}
        return Opened({_endpoint_of(gate_id) for gate_id in gate_ids if "=" not in gate_id}, lanes)


def _endpoint_of(gate_id: str) -> str:
    return gate_id.partition("=")[0]


def _at_first(gate: Gate) -> int:
    """Return how many to ask for through a gate of which nothing is known."""
    rate = UNBOUNDED if gate.rate is None else gate.rate.count if gate.rate.is_sliding else gate.rate.burst
    return min(rate, gate.max_in_flight or UNBOUNDED)
