"""Depth: partitions with enough due executions, to which late executions are not added yet."""

from collections.abc import Collection

from app.kernel.db import Database
from app.kernel.sql import of_regions, statement
from app.queue.claiming.arms import CLAIMABLE
from app.queue.executions.execution_insertion import priority_of, queue_of

DEEP = 1_000  # due executions of a partition, over all shards
PROBED = 16  # shards per statement

# Partition of the next execution of a job, by the current definition of its endpoint.
PARTITIONS = statement(
    "executions.partitions_of_jobs",
    f"""
    SELECT j.job_id, {queue_of("j", "e")} AS queue, j.endpoint, j.limit_key, {priority_of("j", "e")} AS priority
      FROM jobs AS j JOIN endpoints AS e ON e.name = j.endpoint
     WHERE j.job_id = ANY (CAST(:jobs AS TEXT[]))
    """,  # noqa: S608 - constants of this package
)

# Reads at most DEEP entries of the index of partitions in each shard.
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


class Depths:
    """Reads the depth of each partition once, in one pass over the due jobs."""

    def __init__(self, database: Database, shards: int) -> None:
        self._database = database
        self._shards = shards
        self._is_deep: dict[tuple[str, str, str, int], bool] = {}

    def deep(self, jobs: Collection[str]) -> set[str]:
        """Return the jobs whose partition already has at least DEEP due executions."""
        found = set()
        for row in self._database.fetch(PARTITIONS, {"jobs": sorted(jobs)}) if jobs else ():
            partition = row.queue, row.endpoint, row.limit_key, row.priority
            if partition not in self._is_deep:
                params = row._asdict()
                counts = (
                    self._database.fetch(DEPTH, params | {"first": first}) for first in range(0, self._shards, PROBED)
                )
                self._is_deep[partition] = sum(count.due for found in counts for count in found) >= DEEP
            if self._is_deep[partition]:
                found.add(row.job_id)
        return found
