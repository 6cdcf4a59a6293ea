"""Queues: how much is due in each, for how long, how many workers serve it, and whether it is paused."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from app.features.queues import store as queues_store
from app.kernel.config import MOST_SHARDS
from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, Position
from app.kernel.errors import QueueNotFoundError
from app.kernel.formats import EPOCH
from app.kernel.processes.worker_commands import IS_DRAINING
from app.kernel.sql import statement
from app.queue.claiming.claimable_queues import claimable_of, claimable_queues, named_queues

MOST_QUEUES = 200  # with something claimable in them
MOST_DUE = 10_000  # that are counted of a queue
MOST_UNSERVED = 1_000  # of one that nobody serves
LEAST_OF_SHARD = 1_000
AT_ONCE = 16  # shards in a statement

SERVING = statement(
    "stats.serving",
    f"""
    SELECT q.queue, count(*) AS workers
      FROM workers AS w CROSS JOIN LATERAL jsonb_array_elements_text(w.queues) AS q (queue)
     WHERE w.status = 'ALIVE' AND w.lease_expires_at > now() AND NOT {IS_DRAINING}
     GROUP BY q.queue
    """,  # noqa: S608 - a constant of ours
)
_SHARD = "CAST(:first AS BIGINT)"
_CLAIMABLE = "status IN ('QUEUED', 'RETRYING')"


# A range of the index of the look for each shard, written out: CockroachDB makes a correlated subquery with LIMIT a
# join with every claimable row.
def _due_in(number: int) -> str:
    return f"""
    SELECT CAST(NULL AS BIGINT) AS beyond, count(*) AS due, min(run_at) AS oldest_due_at, now() AS now
      FROM (SELECT run_at FROM executions
             WHERE queue = :queue AND shard = {_SHARD} + {number} AND {_CLAIMABLE} AND run_at <= now()
             ORDER BY run_at, execution_id LIMIT :of_shard) AS due_{number}"""  # noqa: S608 - constants of this module


# Whether there are more shards: normally none, not even deleted rows.
_BEYOND = f"""
    SELECT shard, 0, NULL, now()
      FROM (SELECT shard FROM executions
             WHERE queue = :queue AND shard >= {_SHARD} + {AT_ONCE} AND shard < {MOST_SHARDS} AND {_CLAIMABLE}
             ORDER BY shard DESC, run_at DESC, execution_id DESC LIMIT 1) AS more"""  # noqa: S608 - as above
DUE = statement("stats.due", "\n    UNION ALL".join([*map(_due_in, range(AT_ONCE)), _BEYOND]))


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue: how many live workers serve it, how much in it is due, up to a bound, and since when.

    And since when it is paused, if it is.
    """

    queue: str
    workers: int
    due: int
    oldest_due_at: datetime | None
    oldest_due_seconds: float | None
    paused_at: datetime | None = None

    @property
    def is_unserved(self) -> bool:
        """Whether something is due and no live worker serves it, although nobody has paused it."""
        return not self.workers and self.due > 0 and self.paused_at is None


def known(database: Database, most: int | None = None) -> dict[str, int]:
    """Return the queues in which executions wait, that workers serve, that endpoints and routes name, or are paused.

    In the order of their names, each with the number of live workers that serve it. Of the first kind there may be more
    than MOST_QUEUES; of more than `most` in all, the others are left out first.
    """
    claimable, served = claimable_queues(database, MOST_QUEUES), serving(database)
    others = sorted({*served, *named_queues(database), *queues_store.paused(database)}.difference(claimable))
    return {queue: served.get(queue, 0) for queue in sorted([*claimable, *others][:most])}


def read(database: Database, workers: Mapping[str, int], shards: int) -> list[Queue]:
    """Read these queues, each with how many workers serve it; about MOST_DUE of what is due are counted of each."""
    of_shard, paused = max(LEAST_OF_SHARD, MOST_DUE // shards), queues_store.paused(database)
    found = (_queue(database, queue, count, of_shard, MOST_DUE) for queue, count in workers.items())
    return [replace(queue, paused_at=paused.get(queue.queue)) for queue in found]


def get(database: Database, queue: str, shards: int) -> Queue:
    """Read a queue of those that are listed; raises QueueNotFoundError."""
    workers = serving(database).get(queue, 0)
    is_known = (
        workers
        or queue in queues_store.paused(database)
        or queue in named_queues(database)
        or claimable_of(database, [queue], 1)
    )
    if not is_known:
        raise QueueNotFoundError.of(queue)
    return read(database, {queue: workers}, shards)[0]


def page(database: Database, shards: int, wanted: PageRequest) -> Page[Queue]:
    """Read a page of queues, in the order of their names."""
    after = "" if wanted.after is None else wanted.after.key
    listed = [(name, workers) for name, workers in known(database).items() if name > after]
    shown = listed[: wanted.limit]
    position = Position(EPOCH, shown[-1][0]) if len(listed) > len(shown) else None
    return Page(read(database, dict(shown), shards), position)


def unserved(database: Database) -> list[Queue]:
    """Find the queues in which something is due and that no live worker serves, in the order of their names.

    Up to MOST_UNSERVED of what is due are counted of each. What is paused waits for somebody else than a worker.
    """
    known = {*serving(database), *queues_store.paused(database)}
    claimable = (queue for queue in claimable_queues(database, MOST_QUEUES) if queue not in known)
    found = (_queue(database, queue, 0, MOST_UNSERVED, MOST_UNSERVED) for queue in claimable)
    return [queue for queue in found if queue.is_unserved]


def oldest_due(database: Database) -> dict[str, datetime]:
    """Return since when something has been due in each queue of MOST_QUEUES that nobody has paused."""
    paused = queues_store.paused(database)
    found = {
        queue: min(
            (row.oldest_due_at for row in _due(database, queue, 1) if row.oldest_due_at is not None), default=None
        )
        for queue in claimable_queues(database, MOST_QUEUES)
        if queue not in paused
    }
    return {queue: since for queue, since in found.items() if since is not None}


def serving(database: Database) -> dict[str, int]:
    """Return how many live workers serve each queue; none of those that drain does."""
    return {row.queue: row.workers for row in database.fetch(SERVING)}


def _queue(database: Database, queue: str, workers: int, of_shard: int, most: int) -> Queue:
    rows = list(_due(database, queue, of_shard))
    oldest = min((row.oldest_due_at for row in rows if row.oldest_due_at is not None), default=None)
    age = None if oldest is None else (rows[0].now - oldest).total_seconds()
    return Queue(queue, workers, min(most, sum(row.due for row in rows)), oldest, age)


def _due(database: Database, queue: str, of_shard: int) -> Iterator[Row[Any]]:
    first, last = 0, 0
    while first <= last:
        rows = database.fetch(DUE, {"queue": queue, "first": first, "of_shard": of_shard})
        yield from rows
        last = max((row.beyond for row in rows if row.beyond is not None), default=0)
        first += AT_ONCE
