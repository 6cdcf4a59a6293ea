"""Queue statistics: due executions, their age, live workers, and pause of each queue."""

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

MOST_QUEUES = 200  # queues with claimable executions
MOST_DUE = 10_000  # counted executions of a queue
MOST_UNSERVED = 1_000  # counted executions of a queue without workers
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


# An index range for each shard, written out: CockroachDB turns a correlated subquery with LIMIT into a join with every
# claimable row.
def _due_in(number: int) -> str:
    return f"""
    SELECT CAST(NULL AS BIGINT) AS beyond, count(*) AS due, min(run_at) AS oldest_due_at, now() AS now
      FROM (SELECT run_at FROM executions
             WHERE queue = :queue AND shard = {_SHARD} + {number} AND {_CLAIMABLE} AND run_at <= now()
             ORDER BY run_at, execution_id LIMIT :of_shard) AS due_{number}"""  # noqa: S608 - constants of this module


# Finds rows in further shards: normally there are none, not even deleted ones.
_BEYOND = f"""
    SELECT shard, 0, NULL, now()
      FROM (SELECT shard FROM executions
             WHERE queue = :queue AND shard >= {_SHARD} + {AT_ONCE} AND shard < {MOST_SHARDS} AND {_CLAIMABLE}
             ORDER BY shard DESC, run_at DESC, execution_id DESC LIMIT 1) AS more"""  # noqa: S608 - as above
DUE = statement("stats.due", "\n    UNION ALL".join([*map(_due_in, range(AT_ONCE)), _BEYOND]))


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue; `due` is counted up to a bound, `paused_at` is None for a queue that is not paused."""

    queue: str
    workers: int
    due: int
    oldest_due_at: datetime | None
    oldest_due_seconds: float | None
    paused_at: datetime | None = None

    @property
    def is_unserved(self) -> bool:
        """Whether executions are due that no live worker serves, in a queue that is not paused."""
        return not self.workers and self.due > 0 and self.paused_at is None


def known(database: Database, most: int | None = None) -> dict[str, int]:
    """Return the known queues by name, each with the number of its live workers.

    Known are queues with waiting executions (about MOST_QUEUES of them), with workers, named by endpoints or routes, or
    paused. Beyond `most` queues in all, the ones without waiting executions are left out first.
    """
    claimable, served = claimable_queues(database, MOST_QUEUES), serving(database)
    others = sorted({*served, *named_queues(database), *queues_store.paused(database)}.difference(claimable))
    return {queue: served.get(queue, 0) for queue in sorted([*claimable, *others][:most])}


def read(database: Database, workers: Mapping[str, int], shards: int) -> list[Queue]:
    """Read statistics of queues, given with their numbers of workers; counts about MOST_DUE executions of each."""
    of_shard, paused = max(LEAST_OF_SHARD, MOST_DUE // shards), queues_store.paused(database)
    found = (_queue(database, queue, count, of_shard, MOST_DUE) for queue, count in workers.items())
    return [replace(queue, paused_at=paused.get(queue.queue)) for queue in found]


def get(database: Database, queue: str, shards: int) -> Queue:
    """Read a known queue; raises QueueNotFoundError."""
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
    """Read a page of queues, by name."""
    after = "" if wanted.after is None else wanted.after.key
    listed = [(name, workers) for name, workers in known(database).items() if name > after]
    shown = listed[: wanted.limit]
    position = Position(EPOCH, shown[-1][0]) if len(listed) > len(shown) else None
    return Page(read(database, dict(shown), shards), position)


def unserved(database: Database) -> list[Queue]:
    """Return the queues with due executions and without a live worker, by name; paused queues do not count.

    Up to MOST_UNSERVED due executions of each are counted.
    """
    known = {*serving(database), *queues_store.paused(database)}
    claimable = (queue for queue in claimable_queues(database, MOST_QUEUES) if queue not in known)
    found = (_queue(database, queue, 0, MOST_UNSERVED, MOST_UNSERVED) for queue in claimable)
    return [queue for queue in found if queue.is_unserved]


def oldest_due(database: Database) -> dict[str, datetime]:
    """Return the instant of the oldest due execution of each queue that is not paused, for MOST_QUEUES of them."""
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
    """Return the number of live workers of each queue, without draining workers."""
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
