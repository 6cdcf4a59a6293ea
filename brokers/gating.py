"""Gating: which lanes of a queue wait for their limits, and how much these let through next."""

import itertools
import random
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from app.features.limits.store import UNBOUNDED, Gate, GateState, gates_of
from app.queue.claiming.endpoint_rules import Rules
from app.queue.claiming.partition import Lane, Wanted
from app.queue.claiming.taken import Taken
from brokers.known_rules import FlowRules
from brokers.sharing.partitions import Lanes
from brokers.sharing.ready_partitions import Take

NS = 1_000_000_000
# Where what runs must end first. What ends here tells; of what ends elsewhere nobody does.
POLL_SECONDS, MOST_KEY_POLL_SECONDS = 0.2, 1.6
CONTENDED_SECONDS = 0.005  # after which a gate is asked again that another worker was going through
MOST_KNOWN = 20_000


class _Known(NamedTuple):
    """What is known of a gate: closed until an instant, and then open for so many; `polls` that found it full."""

    room: int
    closed_until: float = -inf
    polls: int = 0


class Gating:
    """The gates of one queue's lanes as its consumer knows them; belongs to its thread, but for `freed`.

    The database decides what goes through; this keeps the consumer from asking in vain. `now` is on the clock of the
    lanes. Lanes of endpoints without rules have no gates, and are none of its business.
    """

    def __init__(self, rules: FlowRules, lanes: Lanes, capacity: int) -> None:
        self.revision = -1  # of the rules that are followed
        self.freed: deque[tuple[str, str]] = deque()  # endpoints and keys of which something ended; from any thread
        self._picked: Counter[str] = Counter()  # by gate: what was reserved for the claim that is about to be sent
        self._refused: dict[Lane, float] = {}  # in this pick, and until when
        self._rules = rules
        self._followed: Mapping[str, Rules] = {}
        self._lanes = lanes
        self._most_ahead = max(1, capacity // 4)
        self._paused: set[str] = set()
        self._shut: set[str] = set()  # endpoints
        self._resting: defaultdict[str, set[Lane]] = defaultdict(set)  # by gate
        self._known: dict[str, _Known] = {}

    def follow(self, now: float) -> None:
        """Take in new rules, and what has ended."""
        if self.revision != self._rules.revision:
            self.revision = self._rules.revision
            self._follow_rules(now)
        while self.freed:
            endpoint, limit_key = self.freed.popleft()
            for gate_id in {endpoint, endpoint + limit_key}:
                known = self._known.get(gate_id)
                if known is not None and known.closed_until == -inf:
                    self._known[gate_id] = _Known(known.room + 1)
                elif known is not None and known.polls:
                    self._known[gate_id] = _Known(1)
                    self._open(gate_id, now)

    def pick(self, now: float, reserve: Take) -> list[Wanted]:
        """Choose the lanes of the next claim, as `Lanes.pick` does, and of each no more than its gates may let through.

        `reserve` reserves slots for a lane.
        """
        self._picked.clear()
        while True:
            wanted = self._lanes.pick(now, lambda lane, most: self._take(lane, most, now, reserve))
            if not self._refused:
                return wanted
            self._rest()
            if wanted:
                return wanted

    def parts(self, wanted: Sequence[Wanted]) -> list[tuple[list[Wanted], list[Gate]]]:
        """Divide what is wanted into what goes through no gate and what goes through these; either may be missing."""
        free, gated, gates = list[Wanted](), list[Wanted](), dict[str, Gate]()
        for one in wanted:
            its = self._gates(one.lane)
            (gated if its else free).append(one)
            gates |= {gate.gate_id: gate for gate in its}
        return [(part, its) for part, its in ((free, []), (gated, list(gates.values()))) if part]

    def answered(self, wanted: Sequence[Wanted], gates: Sequence[Gate], taken: Taken, now: float) -> list[str]:
        """Take in the answer to a claim through gates, which the lanes have taken in before; returns missing gates."""
        used: Counter[str] = Counter()
        for claim in taken.claims:
            used[claim.endpoint] += 1
            if claim.limit_key:
                used[claim.endpoint + claim.limit_key] += 1
        waiting = [lane for lane, quota, _ in wanted if taken.found[lane].rows >= quota]
        missing = list[str]()
        for gate in gates:
            state = taken.gates[gate.gate_id]
            if state.is_missing:
                missing.append(gate.gate_id)
                continue
            known = self._judge(gate, state, used[gate.gate_id], now)
            self._known.pop(gate.gate_id, None)
            self._known[gate.gate_id] = known  # as the newest
            self._resting.pop(gate.gate_id, None)
            if known.closed_until > now:
                self._close(gate, known.closed_until, waiting)
        if len(self._known) > MOST_KNOWN:
            # Without the older half, closed or not: the database decides, and is asked once in vain.
            self._known = dict(itertools.islice(self._known.items(), MOST_KNOWN // 2, None))
            for gate_id in self._resting.keys() - self._known.keys():
                del self._resting[gate_id]
        return missing

    def _gates(self, lane: Lane) -> list[Gate]:
        rules = self._rules.of(lane.endpoint)
        if rules is None or rules.limits is None:
            return []
        return gates_of(rules.limits, lane.endpoint, lane.limit_key, most_ahead=self._most_ahead)

    def _take(self, lane: Lane, most: int, now: float, reserve: Take) -> int:
        if lane.endpoint in self._paused:  # what has opened it was something else
            self._refused[lane] = inf
            return 0
        gates = self._gates(lane)
        for gate in gates:
            known = self._known.get(gate.gate_id) or _Known(_at_first(gate))
            if known.closed_until > now:
                self._refused[lane] = known.closed_until
                return 0
            most = min(most, known.room - self._picked[gate.gate_id])
        slots = reserve(lane, most) if most > 0 else 0
        self._picked.update({gate.gate_id: slots for gate in gates})
        return slots

    def _rest(self) -> None:
        """Let the lanes rest that a pick came upon although their gates are closed."""
        for lane, until in self._refused.items():
            if until == inf:
                self._lanes.shut(lane.endpoint, inf)
                continue
            self._lanes.rest(lane, until)
            for gate in self._gates(lane):
                self._resting[gate.gate_id].add(lane)
        self._refused.clear()

    def _judge(self, gate: Gate, state: GateState, claimed: int, now: float) -> _Known:
        """Decide from what a claim has found of a gate when to come back, and for how many."""
        before = self._known.get(gate.gate_id)
        if not state.is_ours:
            return _Known(before.room if before else UNBOUNDED, now + CONTENDED_SECONDS * random.uniform(1.0, 2.0))
        room = state.room(gate, claimed)
        if room:
            return _Known(room)
        opens_in = state.opens_in_ns(gate, claimed)
        if opens_in is None:
            polls = 0 if claimed or before is None else before.polls
            wait = min(POLL_SECONDS * 2**polls, MOST_KEY_POLL_SECONDS) if gate.limit_key else POLL_SECONDS
            return _Known(1, now + wait * random.uniform(0.75, 1.25), polls + 1)
        # Starts that are given out ahead come in portions.
        portion = gate.ahead_ns // 2
        room = UNBOUNDED if gate.rate is None or gate.rate.is_sliding else 1 + portion // gate.rate.period_ns
        return _Known(room, now + (opens_in + portion) / NS)

    def _close(self, gate: Gate, until: float, waiting: Sequence[Lane]) -> None:
        if not gate.limit_key:
            if gate.endpoint not in self._paused:
                self._lanes.shut(gate.endpoint, until)
                self._shut.add(gate.endpoint)
            return
        resting = self._resting[gate.gate_id] = {
            lane for lane in waiting if (lane.endpoint, lane.limit_key) == (gate.endpoint, gate.limit_key)
        }
        for lane in resting:
            self._lanes.rest(lane, until)

    def _open(self, gate_id: str, now: float) -> None:
        """Let the lanes go on that wait for a gate."""
        if gate_id in self._shut and gate_id not in self._paused:
            self._shut.discard(gate_id)
            self._lanes.shut(gate_id, now)
        for lane in self._resting.pop(gate_id, ()):
            self._lanes.rest(lane, now)

    def _follow_rules(self, now: float) -> None:
        """Shut what is paused from now on, and ask what else has changed anew: its limits may be others, or none."""
        before, after = self._followed, self._rules.by_endpoint
        self._followed = after
        changed = {endpoint for endpoint in before.keys() | after.keys() if before.get(endpoint) != after.get(endpoint)}
        paused = {endpoint for endpoint in after if after[endpoint].is_paused}
        for endpoint in paused - self._paused:
            self._lanes.shut(endpoint, inf)
        resumed, self._paused = self._paused - paused, paused
        for endpoint in resumed:
            self._lanes.shut(endpoint, now)
        for gate_id in [*self._shut, *self._resting]:
            if _endpoint_of(gate_id) in changed:
                self._open(gate_id, now)
        self._shut -= paused
        self._known = {gate_id: known for gate_id, known in self._known.items() if _endpoint_of(gate_id) not in changed}


def _endpoint_of(gate_id: str) -> str:
    return gate_id.partition("=")[0]


def _at_first(gate: Gate) -> int:
    """Return how many to ask for through a gate of which nothing is known."""
    rate = UNBOUNDED if gate.rate is None else gate.rate.count if gate.rate.is_sliding else gate.rate.burst
    return min(rate, gate.max_in_flight or UNBOUNDED)
