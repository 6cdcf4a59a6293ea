"""Breaker: when a target is left alone because its deliveries fail, and what follows; pure.

A breaker is closed (all is sent), open (nothing is) or half open (one delivery is, the probe). Results are counted in
slots of ten seconds by the database's clock, so that those of several processes can be added.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from operator import attrgetter
from typing import Any, NamedTuple, Self

from app.kernel.formats import duration_ms, show_duration
from schema.states import BreakerState

SLOT_SECONDS = 10
PROBE_SLACK_MS = 5_000
"""How much longer than its own time limit a probe may take: from winning the right to it to its first byte."""

Counts = Mapping[int, tuple[int, int]]
"""By slot: how many deliveries succeeded, and how many failed."""


class Source(NamedTuple):
    """Who has counted results, on which machine, and of which endpoint; those not told apart have no name."""

    worker: str
    endpoint: str = ""
    host: str = ""


class Reason(StrEnum):
    """Why a breaker changed its state."""

    FAILURES = "FAILURES"  # more of the deliveries in its window failed than its settings allow
    RETRY_AFTER = "RETRY_AFTER"  # the receiver asked for it
    PROBE = "PROBE"  # it has been open for its time
    PROBE_SUCCEEDED = "PROBE_SUCCEEDED"
    PROBE_FAILED = "PROBE_FAILED"
    PROBE_UNUSED = "PROBE_UNUSED"  # nothing was left to send, or nothing could be
    CLOSED_BY_HAND = "CLOSED_BY_HAND"
    FORGOTTEN = "FORGOTTEN"  # nothing was sent to the target for long


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """An endpoint's `breaker`, with its defaults."""

    failure_ratio: float = 0.5
    min_results: int = 10
    window_ms: int = 60_000
    open_for_ms: int = 30_000
    is_off: bool = False

    @classmethod
    def from_json(cls, stored: Any) -> Self:
        """Read stored settings: None means the defaults, which also fill in what is absent."""
        if stored == "off":
            return cls(is_off=True)
        known = dict(stored or {})
        for name, given in (("window_ms", "window"), ("open_for_ms", "open_for")):
            if given in known:
                known[name] = duration_ms(known.pop(given))
        return cls(**known)

    def as_json(self) -> Any:
        """Return `off`, or the settings with their defaults."""
        if self.is_off:
            return "off"
        return {
            "failure_ratio": self.failure_ratio,
            "min_results": self.min_results,
            "window": show_duration(self.window_ms),
            "open_for": show_duration(self.open_for_ms),
        }

    @property
    def slots(self) -> int:
        """Return how many slots hold a window that begins anywhere in the first of them."""
        return ceil(self.window_ms / (SLOT_SECONDS * 1000)) + 1

    def key_of(self, target: str) -> str:
        """Return the name of the breaker that watches a target by these settings.

        Who has settings of its own has a breaker of its own: endpoints of one target then never argue about numbers.
        """
        if self == _DEFAULTS:
            return target
        digest = hashlib.blake2b(repr(self).encode(), digest_size=4).hexdigest()
        return f"{target}~{digest}"


_DEFAULTS = BreakerSettings()


class Standing(NamedTuple):
    """The state of a breaker; `until` is when it may be probed, or when its probe is given up.

    Counts of slots before `since_slot` are from before it was last closed.
    """

    state: BreakerState = BreakerState.CLOSED
    until: float = 0.0
    since_slot: int = 0


class Transition(NamedTuple):
    """A change of state, and for how long: open, or until its probe is given up. With the figures that caused it."""

    to: BreakerState
    reason: Reason
    for_ms: int = 0
    failed: int | None = None
    results: int | None = None


def slot_at(now: float) -> int:
    """Return the slot of an instant, in seconds since 1970 by the database's clock."""
    return int(now // SLOT_SECONDS)


def decide(standing: Standing, counts: Counts, settings: BreakerSettings, now: float) -> Transition | None:
    """Return what a breaker changes to without being told of a probe's result; None: it stays as it is."""
    if standing.state is not BreakerState.CLOSED:
        return Transition(BreakerState.HALF_OPEN, Reason.PROBE) if now >= standing.until else None
    first = max(slot_at(now) - settings.slots + 1, standing.since_slot)
    counted = [pair for slot, pair in counts.items() if slot >= first]
    failed = sum(pair[1] for pair in counted)
    results = failed + sum(pair[0] for pair in counted)
    if results < settings.min_results or not failed:
        return None
    # "More than the ratio" would never be reached where it is 1.
    if failed > settings.failure_ratio * results or failed == results:
        return Transition(BreakerState.OPEN, Reason.FAILURES, settings.open_for_ms, failed, results)
    return None


def decide_together(
    standing: Standing, each: Mapping[Source, Counts], settings: BreakerSettings, now: float
) -> Transition | None:
    """Return what a breaker changes to by what each process has counted.

    Neither one process, one machine nor one endpoint alone speaks for a target that works for the others.
    """
    found = decide(standing, total(each.values()), settings, now)
    if found is None or found.to is not BreakerState.OPEN:
        return found
    first = max(slot_at(now) - settings.slots + 1, standing.since_slot)
    for counted in (_by("worker", each), _by("host", each)):
        if _works_for_others(standing, counted, settings, now, first):
            return None
    return None if _works_for_other_endpoints(standing, each, settings, first) else found


def _by(part: str, each: Mapping[Source, Counts]) -> dict[str, Counts]:
    """Add up what has the same part of its source."""
    of, apart = attrgetter(part), defaultdict[str, list[Counts]](list)
    for source, counts in each.items():
        apart[of(source)].append(counts)
    return {name: total(counted) for name, counted in apart.items()}


def _works_for_others(
    standing: Standing, counted: Mapping[str, Counts], settings: BreakerSettings, now: float, first: int
) -> bool:
    """Return whether one process or machine alone fails: it may have no open files left, or no network.

    The others must have results enough to judge by, from the time since which it fails.
    """
    worst = max(counted, key=lambda name: _failures(counted[name], first))
    others = total(counts for name, counts in counted.items() if name != worst)
    failing = [slot for slot, (_, failed) in counted[worst].items() if failed and slot >= first]
    # In the slot in which it began to fail the others may have had theirs before.
    since = {slot: pair for slot, pair in others.items() if slot > min(failing) or slot == max(failing)}
    is_enough = sum(ok + failed for ok, failed in since.values()) >= settings.min_results
    return is_enough and decide(standing, since, settings, now) is None


def _works_for_other_endpoints(
    standing: Standing, each: Mapping[Source, Counts], settings: BreakerSettings, first: int
) -> bool:
    """Return whether one endpoint alone fails, maybe by its path, its timeout or its settings.

    One success of another since it fails is enough: a target that is down has none, and who fails at once is always
    ahead of the others. Where these fail too, it is the target.
    """
    noise = Counter[str]()
    for source, counts in each.items():
        if source.endpoint:
            noise[source.endpoint] += _failures(counts, first)
    worst = max(noise, key=lambda endpoint: noise[endpoint], default="")
    if not noise[worst]:
        return False
    own = total(counts for source, counts in each.items() if source.endpoint == worst)
    others = total(counts for source, counts in each.items() if source.endpoint != worst)
    began, last = _failing_since(own, settings, first)
    # For whom the probe that closed it has succeeded is kept in the slot before.
    proof = standing.since_slot - 1 if began <= standing.since_slot + 1 else None
    since = [pair for slot, pair in others.items() if slot > began or slot in (last, proof)]
    worked, failed = (sum(pair[result] for pair in since) for result in (0, 1))
    return worked > 0 and failed <= settings.failure_ratio * (worked + failed)


def _failing_since(counts: Counts, settings: BreakerSettings, first: int) -> tuple[int, int]:
    """Return the slots of the first and last failure since the last slot in which enough succeeded."""
    failing = [slot for slot, (_, failed) in counts.items() if failed and slot >= first]
    began = last = max(failing)
    for slot in sorted((slot for slot, pair in counts.items() if first <= slot < last and any(pair)), reverse=True):
        ok, failed = counts[slot]
        if ok and failed <= settings.failure_ratio * (ok + failed):
            break
        began = slot
    return began, last


def _failures(counts: Counts, first: int) -> int:
    return sum(failed for slot, (_, failed) in counts.items() if slot >= first)


def total(each: Iterable[Counts]) -> Counts:
    """Add up what several have counted."""
    sums: dict[int, tuple[int, int]] = {}
    for counts in each:
        for slot, (ok, failed) in counts.items():
            before = sums.get(slot, (0, 0))
            sums[slot] = (before[0] + ok, before[1] + failed)
    return sums


def after_probe(failed: bool | None, settings: BreakerSettings) -> Transition:
    """Return what a probe's result changes a breaker to; None stands for a probe that was not sent."""
    if failed is None:
        return Transition(BreakerState.OPEN, Reason.PROBE_UNUSED)
    if failed:
        return Transition(BreakerState.OPEN, Reason.PROBE_FAILED, settings.open_for_ms)
    return Transition(BreakerState.CLOSED, Reason.PROBE_SUCCEEDED)
