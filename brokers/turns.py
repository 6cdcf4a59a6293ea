"""Turns: which shard of a queue is polled next, and when."""

import random
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import NamedTuple

from app.executions.claiming.shards import NextDue
from app.executions.low_water import LowWater

FIRST_IDLE_WAIT_SECONDS = 0.01
MOST_PER_CLAIM = 200


@dataclass(slots=True)
class _Shard:
    """When a shard is polled, for how much, and from where on."""

    poll_at: float
    appetite: int
    mark: LowWater = field(default_factory=LowWater)


class Turn(NamedTuple):
    """When to poll on time.monotonic(), which shard, for how much, and from which `run_at` on.

    Without a shard all of them are looked at.
    """

    at: float
    shard: int | None
    appetite: int
    since: datetime


class Turns:
    """The turns of the shards of one queue; belongs to one thread.

    A shard takes its place in line at the instant from which it is known to have something due, and so does the look at
    all of them, which tells what is due where. Whoever had a turn starts again at the end of the line: neither a deep
    backlog in one shard nor hints that never stop keep another shard waiting. With one shard its claim is the look.
    """

    def __init__(self, shards: int, *, appetite: int, longest_wait: float) -> None:
        self._first_appetite = appetite
        self._longest_wait = longest_wait
        self._idle_wait = FIRST_IDLE_WAIT_SECONDS
        self._look_at = 0.0
        self._shards: list[_Shard] = []
        self.extend(shards)

    def __len__(self) -> int:
        return len(self._shards)

    def extend(self, shards: int) -> None:
        """Serve at least so many shards from now on, and look at new ones at once."""
        if shards > len(self._shards):
            self._shards += [_Shard(inf, self._first_appetite) for _ in range(shards - len(self._shards))]
            self._look_at = 0.0

    def next(self) -> Turn:
        """Return the turn at the head of the line."""
        first, shards = 0, self._shards
        if len(shards) > 1:
            first = min(range(len(shards)), key=lambda number: shards[number].poll_at)
        shard = shards[first]
        if shard.poll_at < self._look_at:
            return Turn(shard.poll_at, first, shard.appetite, shard.mark.since)
        return Turn(self._look_at, None if len(shards) > 1 else 0, self._first_appetite, shard.mark.since)

    def since(self) -> list[datetime]:
        """Return from which `run_at` on each shard is looked at."""
        return [shard.mark.since for shard in self._shards]

    def look_now(self, now: float) -> None:
        """Put the look in line: something may have become due."""
        self._look_at = min(self._look_at, now)

    def looked(self, now: float, found: NextDue, *, ahead: float) -> None:
        """Take in what a look found, to be claimed `ahead` seconds early; what is due already keeps its place."""
        for number, shard in enumerate(self._shards):
            wait = found.in_seconds(number) - ahead
            shard.poll_at = now + wait if wait > 0 else min(shard.poll_at, now)
            shard.mark.advance(found.seen_up_to(number), now)
        self._idle_wait = min(self._idle_wait * 2, self._longest_wait)
        self._look_at = now + self._idle_wait * random.uniform(0.9, 1.1)

    def claimed(
        self, number: int, now: float, *, count: int, limit: int, due_in: float | None, seen_up_to: datetime
    ) -> None:
        """Take in the answer to a claim, and in how many seconds the shard has more to claim."""
        shard, full = self._shards[number], count == limit
        shard.mark.advance(seen_up_to, now)
        shard.appetite = min(shard.appetite * 2, MOST_PER_CLAIM) if full else self._first_appetite
        shard.poll_at = now if full else now + (inf if due_in is None else max(0.0, due_in))
        single = len(self._shards) == 1
        if single or count:
            # Look soon after something was found, then less and less often.
            self._idle_wait = FIRST_IDLE_WAIT_SECONDS if count else min(self._idle_wait * 2, self._longest_wait)
            look_at = now + self._idle_wait * random.uniform(0.9, 1.1)
            self._look_at = look_at if single else min(self._look_at, look_at)
