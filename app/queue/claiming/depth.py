"""Depth: which partitions hold so much that is due that nothing late should be added to them yet."""

from collections.abc import Collection
from typing import NamedTuple

from app.kernel.db import Database
from app.kernel.sql import of_regions, statement
from app.queue.claiming.arms import CLAIMABLE
from app.queue.executions.execution_insertion import priority_of, queue_of

DEEP = 1_000  # due executions of a partition, over all shards
PROBED = 16  # shards per statement

# The partition of a job's next execution, which is its endpoint's as it is now.
PARTITIONS = statement(
    "executions.partitions_of_jobs",
    f"""
    SELECT j.job_id, {queue_of("j", "e")} AS queue, j.endpoint, j.limit_key, {priority_of("j", "e")} AS priority
      FROM jobs AS j JOIN endpoints AS e ON e.name = j.endpoint
     WHERE j.job_id = ANY (CAST(:jobs AS TEXT[]))
    """,  # noqa: S608 - constants of this package
)

# At most DEEP entries of the index of partitions in each shard, whatever waits there.
DEPTH = statement(
    "executions.depth",
    " UNION ALL ".join(
        f"""
    SELECT count(*) AS due
      FROM (SELECT 1 FROM executions
             WHERE queue = :queue AND shard = CAST(:first AS BIGINT) + {number} AND endpoint = :endpoint
               AND limit_key = :limit_key AND priority = :priority AND {CLAIMABLE} AND run_at <= now(){of_regions()}
             ORDER BY run_at, execution_id LIMIT {DEEP}) AS due_{number}"""  # noqa: S608 - constants of this package
        for number in range(PROBED)
    ),
)


class _Place(NamedTuple):
    """A partition in all its shards."""

    queue: str
    endpoint: str
    limit_key: str
    priority: int


class Depths:
    """Looks at each partition once, and remembers what it has found: for one pass over the due jobs."""

    def __init__(self, database: Database, shards: int) -> None:
        self._database = database
        self._shards = shards
        self._is_deep: dict[_Place, bool] = {}

    def deep(self, jobs: Collection[str]) -> set[str]:
        """Return those of some jobs whose executions would join DEEP others that are due, or more."""
        if not jobs:
            return set()
        found = set()
        for row in self._database.fetch(PARTITIONS, {"jobs": sorted(jobs)}):
            place = _Place(row.queue, row.endpoint, row.limit_key, row.priority)
            if place not in self._is_deep:
                self._is_deep[place] = self._count(place) >= DEEP
            if self._is_deep[place]:
                found.add(row.job_id)
        return found

    def _count(self, place: _Place) -> int:
        params = place._asdict()
        firsts = range(0, self._shards, PROBED)
        return sum(row.due for first in firsts for row in self._database.fetch(DEPTH, params | {"first": first}))
