"""Results: what a worker process has counted of the deliveries to one target, by slot, and of which endpoints."""

import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import partial
from heapq import nlargest

from app.features.breakers.rules import Counts

MOST_NAMED = 4
"""Endpoints whose results are told apart from those of all others, in each slot."""

_Named = Mapping[str, tuple[int, int]]
_none = partial(defaultdict[str, list[int]], partial(list, (0, 0)))  # makes a pair without a call of Python


class Clock:
    """Where the database's clock stands on `time.monotonic()`; set once, so that no result moves to another slot."""

    def __init__(self) -> None:
        self.offset = 0.0

    def now(self) -> float:
        """Return the database's clock in seconds since 1970."""
        return time.monotonic() + self.offset


class Results:
    """The results of one target since its breaker was closed.

    Who counts one increments `tally` and then `by_endpoint`, so that no endpoint has more than all together; both are
    replaced by another thread every slot.
    """

    __slots__ = ("_noisy", "by_endpoint", "counts", "tally")

    def __init__(self, slot: int) -> None:
        self.begin(slot)

    def begin(self, slot: int) -> None:
        """Forget all, and count in a slot from now on."""
        self.tally = [0, 0]  # of the present slot: successes and failures
        self.by_endpoint = _none()  # of the present slot as well
        self.counts = {slot: self.tally}  # by slot, the present one last; replaced, never changed
        self._noisy: Mapping[int, _Named] = {}  # by earlier slot

    def prove(self, slot: int, endpoint: str) -> None:
        """Note a success in a slot that counts for no ratio: it shows that the target works for an endpoint."""
        self._noisy = {slot: {endpoint: (1, 0)}}

    def turn_to(self, slot: int, kept_slots: int) -> None:
        """Count in another slot from now on, and forget those that no window holds any more."""
        if slot not in self.counts:
            oldest = slot - kept_slots
            self._noisy = {at: named for at, named in self._named().items() if at > oldest and named}
            self.tally = [0, 0]
            self.by_endpoint = _none()
            kept = {at: pair for at, pair in self.counts.items() if at > oldest and any(pair)}
            self.counts = kept | {slot: self.tally}

    def total(self) -> Counts:
        """Return the counts of all endpoints together."""
        return {slot: (ok, failed) for slot, (ok, failed) in self.counts.items() if ok or failed}

    def told_apart(self) -> dict[str, Counts]:
        """Return the counts by endpoint: of some in each slot, and under "" of all others together."""
        named = self._named()  # before the sums, which are then no smaller
        apart: dict[str, dict[int, tuple[int, int]]] = {"": {}}
        for slot, (ok, failed) in self.total().items():
            pairs = named.get(slot, {}).values()
            rest = (max(0, ok - sum(pair[0] for pair in pairs)), max(0, failed - sum(pair[1] for pair in pairs)))
            if any(rest):
                apart[""][slot] = rest
        for slot, of in named.items():
            for endpoint, pair in of.items():
                apart.setdefault(endpoint, {})[slot] = pair
        return dict(apart)

    def _named(self) -> dict[int, _Named]:
        """Return the results of the endpoints that have failed most, by slot; where they are few, of all."""
        failures = Counter[str]()
        for named in self._noisy.values():
            failures.update({name: failed for name, (_, failed) in named.items()})
        found = [(failures[name] + failed, ok, name, failed) for name, (ok, failed) in tuple(self.by_endpoint.items())]
        noisiest = {name: (ok, failed) for _, ok, name, failed in nlargest(MOST_NAMED, found)}
        return {**self._noisy, next(reversed(self.counts)): noisiest}
