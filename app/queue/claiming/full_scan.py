"""Full scan: from partition to partition, to find due partitions that a poll cannot see."""

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
MAX_KEPT = 1024  # places of a section that are kept, to divide the next scan
Place = tuple[str, str, int]  # endpoint, limit key, priority
# Before all partitions, and after all names of endpoints in any collation.
FIRST, LAST = ("", "", -1), ("z" * 200, "", -1)


# Each arm is one hop: it reads the first index entry behind a place, however deep the partitions are. A recursive
# statement would need fewer round trips, but CockroachDB makes its hop a join with every claimable row. One row has the
# clock.
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
class _Section:
    """A range of the partitions of a shard, and the position of the scan in it."""

    shard: int
    at: Place
    last: Place
    max_kept: int
    found: list[Place] = field(default_factory=list)  # every `every`th partition
    every: int = 1
    _passed: int = 0

    def go_to(self, place: Place) -> None:
        """Go on to the next partition; keep an even choice of very many."""
        self.at = place
        if self._passed % self.every == 0:
            self.found.append(place)
        self._passed += 1
        if len(self.found) >= self.max_kept:
            self.found, self.every = self.found[::2], self.every * 2


class FullScan:
    """One scan over all partitions of a queue, HOPS of them per step; belongs to one thread.

    It reads HOPS sections at the same time. The partitions found by the last scan divide them evenly, in the order of
    the database, which may differ from Python's.
    """

    def __init__(self, shards: int, last: Self | None = None, *, max_kept: int = MAX_KEPT) -> None:
        self._sections = [
            _Section(shard, after, until, max_kept)
            for shard in range(shards)
            for after, until in pairwise([FIRST, *_divided(last, shard, max(1, HOPS // shards)), LAST])
        ]
        self._open = list(self._sections)

    @property
    def is_over(self) -> bool:
        return not self._open

    def partitions(self, shard: int) -> list[Place]:
        """Return the partitions of a shard that were found, in order, or an even choice of them."""
        sections = [section for section in self._sections if section.shard == shard]
        every = max((section.every for section in sections), default=1)
        return [place for section in sections for place in section.found[:: every // section.every]]

    def step(self, database: Database, queue: str) -> tuple[list[Due], datetime]:
        """Scan on; return the partitions found, each with its first instant, and the database's clock."""
        due, clock = self._hop(database, queue)
        # Without many sections, as in the first scan, the hops follow one another.
        for _ in range(HOPS // max(1, len(self._open)) - 1):
            if self.is_over:
                break
            more, clock = self._hop(database, queue)
            due += more
        return due, clock

    def _hop(self, database: Database, queue: str) -> tuple[list[Due], datetime]:
        sections, params = self._open[:HOPS], dict[str, object](queue=queue)
        for number, names in enumerate(_NAMES):
            values: tuple[object, ...] = (0, *FIRST, *FIRST, 0)
            if number < len(sections):
                values = (sections[number].shard, *sections[number].at, *sections[number].last, 1)
            params |= zip(names, values, strict=True)
        ended, due = set(range(len(sections))), []
        for row in database.fetch(NEXT_PARTITIONS, params):
            if row.hop is None:
                clock: datetime = row.run_at
                continue
            section = sections[row.hop]
            section.go_to((row.endpoint, row.limit_key, row.priority))
            ended.discard(row.hop)
            due.append(Due(Partition(section.shard, *section.at), row.run_at))
        self._open = [section for number, section in enumerate(self._open) if number not in ended]
        return due, clock


def _divided(last: FullScan | None, shard: int, parts: int) -> list[Place]:
    """Return the places that divide a shard into equal parts."""
    partitions = [] if last is None else last.partitions(shard)
    if len(partitions) < parts:
        return []
    return [partitions[len(partitions) * part // parts] for part in range(1, parts)]


_NAMES = [
    tuple(
        f"{name}_{number}"
        for name in ("shard", "endpoint", "key", "priority", "last_endpoint", "last_key", "last_priority", "one")
    )
    for number in range(HOPS)
]
