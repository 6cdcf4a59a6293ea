"""Admission of limits: bounds the next claim of a partition by the limits of its endpoint and key."""

import itertools
import random
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from app.features.limits.limited_claim import claim_limited
from app.features.limits.rules import UNBOUNDED, Limiter, LimiterState, limiters_of
from app.features.limits.store import add
from app.kernel.db import Database
from app.queue.claiming.admission import OPEN, AdmissionRule, Opened, Room
from app.queue.claiming.claim import ClaimAnswer
from app.queue.claiming.endpoint_rules import FlowRules, Rules
from app.queue.claiming.partition import ClaimRequest, Partition, PartitionQuota

NS = 1_000_000_000
# For limiters that open when a running execution ends. Ends in other processes are only found by polling.
POLL_SECONDS = 0.2
MAX_KEY_POLL_SECONDS = 1.6
CONTENDED_SECONDS = 0.005  # until the next claim through a limiter that a concurrent claim held
MAX_KNOWN = 20_000


class _KnownLimiter(NamedTuple):
    """Known state of a limiter: closed until an instant, then open for `room`; `polls` in a row found it full."""

    room: int
    closed_until: float = -inf
    polls: int = 0


class LimitAdmission(AdmissionRule):
    """Cached states of the limiters of one queue.

    The database decides how many executions a limiter admits; the cache saves claims that would find nothing.
    Partitions of endpoints without limits have no limiters.
    """

    of_settings = True

    def __init__(self, rules: FlowRules, capacity: int) -> None:
        self._rules = rules
        self._max_ahead = max(1, capacity // 4)
        self._followed: Mapping[str, Rules] = {}
        self._freed: deque[tuple[str, str]] = deque()  # endpoints and keys; from any thread
        self._picked: Counter[str] = Counter()  # by limiter: reserved for the next claim
        self._closed: defaultdict[str, set[Partition]] = defaultdict(set)  # by limiter: partitions that it closes
        self._known: dict[str, _KnownLimiter] = {}
        self.found: Mapping[str, LimiterState] = {}  # by the last claim

    def begin(self, now: float) -> Opened:  # noqa: ARG002
        """Apply new rules and ended executions; return the partitions that open."""
        self._picked.clear()
        opened = list[str]()
        if self._followed is not self._rules.by_endpoint:
            opened += self._follow_rules()
        while self._freed:
            endpoint, limit_key = self._freed.popleft()
            for gate_id in {endpoint, endpoint + limit_key}:
                known = self._known.get(gate_id)
                if known is not None and known.closed_until == -inf:
                    self._known[gate_id] = known._replace(room=known.room + 1)
                elif known is not None and known.polls:
                    self._known[gate_id] = _KnownLimiter(1)
                    opened.append(gate_id)
        partitions = {partition for gate_id in opened for partition in self._closed.pop(gate_id, ())}
        return Opened({_endpoint_of(gate_id) for gate_id in opened if "=" not in gate_id}, partitions)

    def room(self, partition: Partition, now: float) -> Room:
        """Return the smallest capacity among the limiters of a partition."""
        limiters = self._limiters(partition)
        slots = UNBOUNDED
        for limiter in limiters:
            known = self._known.get(limiter.gate_id) or _KnownLimiter(_at_first(limiter))
            if known.closed_until > now:
                self._closed[limiter.gate_id].add(partition)
                return Room(0, known.closed_until, of_endpoint=not limiter.limit_key)
            slots = min(slots, known.room - self._picked[limiter.gate_id])
        return Room(slots) if limiters else OPEN

    def reserved(self, partition: Partition, slots: int) -> None:
        """Count slots of a partition that the next claim will take."""
        for limiter in self._limiters(partition):
            self._picked[limiter.gate_id] += slots

    def freed(self, ended: Sequence[tuple[str, str]]) -> None:
        """Queue ended executions for the next `begin`; callable from any thread."""
        self._freed.extend(ended)

    def claims(self, partition: Partition) -> bool:
        return bool(self._limiters(partition))

    def claim(self, database: Database, wanted: Sequence[PartitionQuota], request: ClaimRequest) -> ClaimAnswer:
        answer = claim_limited(database, wanted, self._limiters_of_all(wanted), request)
        self.found = answer.limiters
        return answer

    def answered(self, database: Database, wanted: Sequence[PartitionQuota], answer: ClaimAnswer, now: float) -> None:
        """Apply `found`, the states of limiters before the claims, and insert missing rows of limiters."""
        used: Counter[str] = Counter()
        for claim in answer.claims:
            used.update({claim.endpoint, claim.endpoint + claim.limit_key})
        missing = list[str]()
        for limiter in self._limiters_of_all(wanted):
            gate_id, state = limiter.gate_id, self.found[limiter.gate_id]
            if state.is_missing:
                missing.append(gate_id)
                continue
            known = self._judge(limiter, state, used[gate_id], now)
            self._known.pop(gate_id, None)
            self._known[gate_id] = known  # as the newest
            self._closed.pop(gate_id, None)
        if len(self._known) > MAX_KNOWN:
            # Drop the older half, closed or not: at worst, a claim of each finds nothing.
            self._known = dict(itertools.islice(self._known.items(), MAX_KNOWN // 2, None))
            for gate_id in self._closed.keys() - self._known.keys():
                del self._closed[gate_id]
        if missing:
            add(database, missing)

    def _limiters(self, partition: Partition) -> list[Limiter]:
        rules = self._rules.of(partition.endpoint)
        if rules is None or rules.limits is None:
            return []
        return limiters_of(rules.limits, partition.endpoint, partition.limit_key, most_ahead=self._max_ahead)

    def _limiters_of_all(self, wanted: Sequence[PartitionQuota]) -> list[Limiter]:
        found = {limiter.gate_id: limiter for one in wanted for limiter in self._limiters(one.partition)}
        return list(found.values())

    def _judge(self, limiter: Limiter, state: LimiterState, claimed: int, now: float) -> _KnownLimiter:
        """Decide from the found state when to claim next, and how many."""
        before = self._known.get(limiter.gate_id)
        if not state.is_ours:
            wait = CONTENDED_SECONDS * random.uniform(1.0, 2.0)
            return _KnownLimiter(before.room if before else UNBOUNDED, now + wait)
        room = state.room(limiter, claimed)
        if room:
            return _KnownLimiter(room)
        opens_in = state.opens_in_ns(limiter, claimed)
        if opens_in is None:
            polls = 0 if claimed or before is None else before.polls
            wait = min(POLL_SECONDS * 2**polls, MAX_KEY_POLL_SECONDS) if limiter.limit_key else POLL_SECONDS
            return _KnownLimiter(1, now + wait * random.uniform(0.75, 1.25), polls + 1)
        # Starts ahead of their instants are claimed in portions.
        portion, rate = limiter.ahead_ns // 2, limiter.rate
        room = UNBOUNDED if rate is None or rate.is_sliding else 1 + portion // rate.period_ns
        return _KnownLimiter(room, now + (opens_in + portion) / NS)

    def _follow_rules(self) -> list[str]:
        """Drop the states of endpoints with changed rules; return their limiters that closed partitions."""
        before, after = self._followed, self._rules.by_endpoint
        self._followed = after
        changed = {endpoint for endpoint in before.keys() | after.keys() if before.get(endpoint) != after.get(endpoint)}
        self._known = {gate_id: known for gate_id, known in self._known.items() if _endpoint_of(gate_id) not in changed}
        return [gate_id for gate_id in self._closed if _endpoint_of(gate_id) in changed]


def _endpoint_of(gate_id: str) -> str:
    return gate_id.partition("=")[0]


def _at_first(limiter: Limiter) -> int:
    """Return how many to claim through a limiter of unknown state."""
    rate, most = limiter.rate, limiter.max_in_flight or UNBOUNDED
    return most if rate is None else min(most, rate.count if rate.is_sliding else rate.burst)
