"""FullScan: the walk from partition to partition, which finds those that no look sees."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Self

from app.kernel.db import Database
from app.kernel.sql import hot_statement, of_regions
from app.queue.claiming.arms import CLAIMABLE
from app.queue.claiming.partition import Partition
from app.queue.claiming.poll import Due

HOPS = 16  # in a statement
MOST_KEPT = 1024  # places of a walk that are remembered, to divide the next full scan by
Place = tuple[str, str, int]  # endpoint, limit key, priority
# Nothing comes before the first, and no name of an endpoint after the last, by any collation.
FIRST, LAST = ("", "", -1), ("z" * 200, "", -1)


# Each arm is one hop: the first entry behind a place, however deep the partitions are. A recursive statement would do
# with fewer round trips, but CockroachDB makes the hop in it a join with every claimable row. One row is the clock.
def _hops() -> str:
    each = "".join(
        f"""
    (SELECT CAST({number} AS BIGINT) AS hop, endpoint, limit_key, priority, run_at FROM executions
      WHERE queue = :queue AND shard = :shard_{number}
        AND {CLAIMABLE}{of_regions()}
        AND (endpoint, limit_key, priority) > (:endpoint_{number}, :key_{number}, :priority_{number})
        AND (endpoint, limit_key, priority) <= (:last_endpoint_{number}, :last_key_{number}, :last_priority_{number})
      ORDER BY endpoint, limit_key, priority, run_at, execution_id LIMIT :one_{number})
    UNION ALL"""  # noqa: S608 - constants of this module
        for number in range(HOPS)
    )
    return f"{each} SELECT NULL, '', '', NULL, now()"


NEXT_PARTITIONS = hot_statement("executions.next_partitions", _hops())


@dataclass(slots=True)
class _Walk:
    """The walk through the partitions of a shard from one place to another."""

    shard: int
    at: Place
    last: Place
    found: list[Place] = field(default_factory=list)  # one of so many:
    every: int = 1
    _passed: int = 0

    def go_to(self, place: Place) -> None:
        """Go on to the next partition; of very many partitions an even choice is kept."""
        self.at = place
        if self._passed % self.every == 0:
            self.found.append(place)
        self._passed += 1
        if len(self.found) >= MOST_KEPT:
            self.found, self.every = self.found[::2], self.every * 2


class FullScan:
    """One walk over all partitions of a queue, HOPS of them a step; belongs to one thread.

    It goes on at so many places at once. Which of them divide the partitions evenly, the last full scan tells by what
    it found: in the order of the database, which need not be that of Python.
    """

    def __init__(self, shards: int, last: Self | None = None) -> None:
        self._walks = [
            _Walk(shard, after, until)
            for shard in range(shards)
            for after, until in pairwise([FIRST, *_divided(last, shard, max(1, HOPS // shards)), LAST])
        ]
        self._under_way = list(self._walks)

    @property
    def is_over(self) -> bool:
        """Whether the walk has come to its end."""
        return not self._under_way

    def partitions(self, shard: int) -> list[Place]:
        """Return the partitions of a shard that were found, in order, or an even choice of them."""
        walks = [walk for walk in self._walks if walk.shard == shard]
        every = max(walk.every for walk in walks) if walks else 1
        return [place for walk in walks for place in walk.found[:: every // walk.every]]

    def step(self, database: Database, queue: str) -> tuple[list[Due], datetime]:
        """Go on; returns the partitions found, each with its first instant, and the database's clock."""
        due, clock = self._hop(database, queue)
        # The first full scan does not know where to divide: it makes as many hops one after the other.
        for _ in range(HOPS // max(1, len(self._under_way)) - 1):
            if self.is_over:
                break
            more, clock = self._hop(database, queue)
            due += more
        return due, clock

    def _hop(self, database: Database, queue: str) -> tuple[list[Due], datetime]:
        walks = self._under_way[:HOPS]
        rows = database.fetch(NEXT_PARTITIONS, _parameters(queue, walks))
        ended, due = set(range(len(walks))), []
        for hop in rows:
            if hop.hop is None:
                clock: datetime = hop.run_at
                continue
            walk = walks[hop.hop]
            walk.go_to((hop.endpoint, hop.limit_key, hop.priority))
            ended.discard(hop.hop)
            due.append(Due(Partition(walk.shard, *walk.at), hop.run_at))
        self._under_way = [walk for number, walk in enumerate(self._under_way) if number not in ended]
        return due, clock


def _divided(last: FullScan | None, shard: int, shares: int) -> list[Place]:
    """Return the places at which a shard is divided into so many shares."""
    partitions = [] if last is None else last.partitions(shard)
    return (
        [partitions[len(partitions) * share // shares] for share in range(1, shares)]
        if len(partitions) >= shares > 1
        else []
    )


def _parameters(queue: str, walks: Sequence[_Walk]) -> dict[str, object]:
    params: dict[str, object] = {"queue": queue}
    for number in range(HOPS):
        walk = walks[number] if number < len(walks) else None
        at, last = (FIRST, FIRST) if walk is None else (walk.at, walk.last)
        params |= zip(_NAMES[number], (walk.shard if walk else 0, *at, *last, 1 if walk else 0), strict=True)
    return params


_NAMES = [
    tuple(
        f"{name}_{number}"
        for name in ("shard", "endpoint", "key", "priority", "last_endpoint", "last_key", "last_priority", "one")
    )
    for number in range(HOPS)
]
