"""The lanes of some endpoints, found without a look at anything that waits for others."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from app.kernel.db import Database
from app.kernel.sql import hot_statement, of_regions
from app.queue.claiming.arms import CLAIMABLE
from app.queue.claiming.partition import Lane
from app.queue.claiming.poll import Due

MOST_STRETCHES = 16  # in a statement
ENTRIES = 64  # of the index, read of each


# Several entries an arm, as of very many lanes most hold little: 64 of those cost one statement, and each deep one
# costs one as well. In the arms no row of another endpoint is read, whatever waits there.
def _stretches() -> str:
    each = " UNION ALL ".join(
        f"""
      (SELECT CAST({number} AS BIGINT) AS arm, limit_key, priority, run_at FROM executions
        WHERE queue = :queue_{number} AND shard = :shard_{number} AND endpoint = :endpoint_{number}
          AND {CLAIMABLE}{of_regions()}
          AND (limit_key, priority) > (:key_{number}, :priority_{number})
        ORDER BY limit_key, priority, run_at, execution_id LIMIT {ENTRIES})"""  # noqa: S608 - constants of this module
        for number in range(MOST_STRETCHES)
    )
    return f"""
    SELECT arm, limit_key, priority, min(run_at) AS run_at, count(*) AS entries, now() AS db_now
      FROM ({each}) AS entries
     GROUP BY arm, limit_key, priority ORDER BY arm, limit_key, priority"""  # noqa: S608 - as above


LANES_OF_ENDPOINTS = hot_statement("executions.lanes_of_endpoints", _stretches())


class Stretch(NamedTuple):
    """What is left to read of an endpoint's lanes in a shard of a queue: those behind a limit key and a priority."""

    queue: str
    shard: int
    endpoint: str
    limit_key: str = ""
    priority: int = -1


class Passed(NamedTuple):
    """The next lanes of a stretch, each with its first instant, by the database's clock, and what is left of it."""

    lanes: Sequence[Due]
    now: datetime | None  # none where nothing was found
    left: Stretch | None


def next_lanes(database: Database, stretches: Sequence[Stretch]) -> list[Passed]:
    """Read on in up to MOST_STRETCHES stretches, by one statement."""
    params: dict[str, object] = {}
    for number in range(MOST_STRETCHES):
        params |= zip(_NAMES[number], stretches[number] if number < len(stretches) else _IDLE, strict=True)
    found: list[list[Due]] = [[] for _ in stretches]
    entries, now = [0 for _ in stretches], None
    for row in database.fetch(LANES_OF_ENDPOINTS, params):
        _queue, shard, endpoint, *_ = stretches[row.arm]
        found[row.arm].append(Due(Lane(shard, endpoint, row.limit_key, row.priority), row.run_at))
        entries[row.arm] += row.entries
        now = row.db_now
    return [
        Passed(lanes, now, _left(stretch, lanes) if count >= ENTRIES else None)
        for stretch, lanes, count in zip(stretches, found, entries, strict=True)
    ]


def _left(stretch: Stretch, lanes: Sequence[Due]) -> Stretch:
    last = lanes[-1].lane
    return stretch._replace(limit_key=last.limit_key, priority=last.priority)


_IDLE = Stretch("", 0, "")
_NAMES = [
    tuple(f"{name}_{number}" for name in ("queue", "shard", "endpoint", "key", "priority"))
    for number in range(MOST_STRETCHES)
]
