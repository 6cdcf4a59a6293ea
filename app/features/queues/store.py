"""Queues: due executions, their age, live workers, and pauses."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Row

from app.features.queues.pauses import Pause, paused
from app.kernel.config import MAX_SHARDS
from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, Position
from app.kernel.errors import QueueNotFoundError
from app.kernel.formats import EPOCH
from app.kernel.processes.worker_commands import IS_DRAINING
from app.kernel.sql import statement
from app.queue.claiming.claimable_queues import claimable_of, claimable_queues, named_queues
from schema.states import EndpointType

MAX_QUEUES = 200  # queues with claimable executions
MAX_DUE = 10_000  # counted executions of a queue
MAX_UNSERVED = 1_000  # counted executions of a queue without workers
MIN_OF_SHARD = 1_000
_TRANSPORTS = frozenset(endpoint_type.queue for endpoint_type in EndpointType)
AT_ONCE = 16  # shards in a statement

SERVING = statement(
    "stats.serving",
    """
    SELECT q.queue, count(*) AS workers
      FROM workers AS w
     CROSS JOIN LATERAL jsonb_array_elements_text(
                          CASE WHEN jsonb_typeof(w.queues) = 'array' THEN w.queues ELSE '[]' END) AS q (queue)
     WHERE w.status = 'ALIVE' AND w.lease_expires_at > now() AND NOT {is_draining}
     GROUP BY q.queue
    """,
    is_draining=IS_DRAINING,
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


# Finds rows in further shards: normally there are none, not even deleted rows.
def _due_of(shards: int) -> str:
    beyond = f"""
    SELECT shard, 0, NULL, now()
      FROM (SELECT shard FROM executions
             WHERE queue = :queue AND shard >= {_SHARD} + {shards} AND shard < {MAX_SHARDS} AND {_CLAIMABLE}
             ORDER BY shard DESC, run_at DESC, execution_id DESC LIMIT 1) AS more"""  # noqa: S608 - as above
    return "\n    UNION ALL".join([*map(_due_in, range(shards)), beyond])


# PostgreSQL has a single shard, and planning takes most of the time of a statement with many.
DUE_OF_ONE = statement("stats.due_of_one", _due_of(1))
DUE = statement("stats.due", _due_of(AT_ONCE))


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue; `due` is counted up to a bound, `paused_at` is None for a queue that is not paused."""

    queue: str
    workers: int
    due: int
    oldest_due_at: datetime | None
    oldest_due_seconds: float | None
    paused_at: datetime | None = None
    paused_by: str | None = None

    def with_pause(self, pause: Pause | None) -> "Queue":
        at, by = pause or (None, None)
        return replace(self, paused_at=at, paused_by=by)

    @property
    def is_unserved(self) -> bool:
        """Whether executions are due that no live worker serves, in a queue that is not paused."""
        return not self.workers and self.due > 0 and self.paused_at is None


class WaitingQueues(NamedTuple):
    """Queues with waiting executions: MAX_QUEUES at most, and the number of further queues, up to a bound.

    Expected queues and the queues of transports come first: any job can name other queues.
    """

    names: list[str]
    left_out: int

    @classmethod
    def of(cls, database: Database, expected: Collection[str]) -> "WaitingQueues":
        first = claimable_of(database, {*expected, *_TRANSPORTS}, MAX_QUEUES)
        further = [name for name in claimable_queues(database, 2 * MAX_QUEUES) if name not in {*first}]
        names = [*first, *further[: MAX_QUEUES - len(first)]]
        return cls(names, len(first) + len(further) - len(names))


class KnownQueues(NamedTuple):
    """Known queues by name, each with the number of its live workers; `left_out` have waiting executions, too."""

    workers: dict[str, int]
    left_out: int


def known(database: Database, most: int | None = None) -> KnownQueues:
    """Return the known queues.

    Known are queues with waiting executions (MAX_QUEUES of them), with workers, named by endpoints or routes, or
    paused. Beyond `most` queues in all, these are left out first: queues without workers and waiting executions, then
    queues that only jobs name.
    """
    served = serving(database)
    expected = {*served, *named_queues(database), *paused(database)}
    waiting = WaitingQueues.of(database, expected)
    ranked = sorted(expected.union(waiting.names), key=lambda name: _rank(name, served, expected, {*waiting.names}))
    chosen = ranked[:most]
    left_out = waiting.left_out + len({*waiting.names}.difference(chosen))
    return KnownQueues({queue: served.get(queue, 0) for queue in sorted(chosen)}, left_out)


def _rank(name: str, served: Collection[str], expected: Collection[str], waiting: Collection[str]) -> tuple[int, str]:
    if name in waiting:
        return 0 if name in expected or name in _TRANSPORTS else 2, name
    return 1 if name in served else 3, name


def read(database: Database, workers: Mapping[str, int], shards: int) -> list[Queue]:
    """Read statistics of queues, given with their numbers of workers; counts about MAX_DUE executions of each."""
    of_shard, pauses = max(MIN_OF_SHARD, MAX_DUE // shards), paused(database)
    return [
        _queue(database, name, count, of_shard, MAX_DUE).with_pause(pauses.get(name)) for name, count in workers.items()
    ]


def get(database: Database, queue: str, shards: int) -> Queue:
    """Read a known queue; raises QueueNotFoundError."""
    workers = serving(database).get(queue, 0)
    is_named = workers or queue in paused(database) or queue in named_queues(database)
    if not is_named and not claimable_of(database, [queue], 1):
        raise QueueNotFoundError.of(queue)
    return read(database, {queue: workers}, shards)[0]


def page(database: Database, shards: int, wanted: PageRequest) -> Page[Queue]:
    after = "" if wanted.after is None else wanted.after.key
    listed = [(name, workers) for name, workers in known(database).workers.items() if name > after]
    shown = listed[: wanted.limit]
    position = Position(EPOCH, shown[-1][0]) if len(listed) > len(shown) else None
    return Page(read(database, dict(shown), shards), position)


def unserved(database: Database) -> list[Queue]:
    """Return the queues with due executions and without a live worker, by name; paused queues do not count.

    Up to MAX_UNSERVED due executions of each are counted.
    """
    served = {*serving(database), *paused(database)}
    waiting = WaitingQueues.of(database, named_queues(database) - served)
    names = (name for name in waiting.names if name not in served)
    found = (_queue(database, name, 0, MAX_UNSERVED, MAX_UNSERVED) for name in names)
    return [queue for queue in found if queue.is_unserved]


def oldest_due(database: Database) -> dict[str, datetime]:
    """Return the instant of the oldest due execution of each queue that is not paused, for MAX_QUEUES of them."""
    pauses = paused(database)
    waiting = WaitingQueues.of(database, {*serving(database), *named_queues(database)})
    names = [name for name in waiting.names if name not in pauses]
    found = {name: _oldest(list(_due(database, name, 1))) for name in names}
    return {name: since for name, since in found.items() if since is not None}


def serving(database: Database) -> dict[str, int]:
    """Return the number of live workers of each queue, without draining workers."""
    return {row.queue: row.workers for row in database.fetch(SERVING)}


def _queue(database: Database, queue: str, workers: int, of_shard: int, most: int) -> Queue:
    rows = list(_due(database, queue, of_shard))
    oldest = _oldest(rows)
    age = None if oldest is None else (rows[0].now - oldest).total_seconds()
    return Queue(queue, workers, min(most, sum(row.due for row in rows)), oldest, age)


def _oldest(rows: Sequence[Row[Any]]) -> datetime | None:
    return min((row.oldest_due_at for row in rows if row.oldest_due_at is not None), default=None)


def _due(database: Database, queue: str, of_shard: int) -> Iterator[Row[Any]]:
    first, last, shards = 0, 0, AT_ONCE if database.is_cockroach else 1
    while first <= last:
        due = DUE_OF_ONE if shards == 1 else DUE
        rows = database.fetch(due, {"queue": queue, "first": first, "of_shard": of_shard})
        yield from rows
        last = max((row.beyond for row in rows if row.beyond is not None), default=0)
        first, shards = first + shards, AT_ONCE
