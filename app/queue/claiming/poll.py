"""Look: which lanes of a queue have something due now or soon, by the index in the order of time."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from app.kernel.db import Database
from app.kernel.sql import hot_statement, of_regions
from app.queue.claiming.partition import Lane
from app.queue.executions.watermark import SLACK

PROBED = 16  # shards per statement
MOST_ROWS = 1000  # that are read of a shard, of what is due and of what comes
STEP_MS = 25  # what is due within so much is one instant
COMMITTED_WITHIN = timedelta(seconds=1)  # of its transaction's start, nearly everything


# Two ranges of the index per shard, written out, as CockroachDB makes a correlated subquery a join with every claimable
# row. A plain read: what it finds is for the claim to take. What is due is read from now backwards: the front of a
# backlog, however long, does not hide what has just come. It is one row for its lane, and so is what is due in each
# further STEP_MS: whoever claims early enough for the last of them is early enough for all. The last row is the
# database's clock and the revision of the rules.
def _looks(shards: int) -> str:
    due = (
        f"run_at >= CAST(:since_{{number}} AS TIMESTAMPTZ) AND run_at <= now(){of_regions()}"
        " ORDER BY run_at DESC, execution_id DESC"
    )
    comes = (
        "run_at > now() AND run_at <= now() + CAST(:horizon_ms AS BIGINT) * INTERVAL '1 millisecond'"
        f"{of_regions()}\n              ORDER BY run_at, execution_id"
    )
    step = f", CAST(EXTRACT(EPOCH FROM (run_at - now())) * {1000 // STEP_MS} AS BIGINT)"
    each = "".join(
        f"""
    (SELECT CAST(:first AS BIGINT) + {number} AS shard, endpoint, limit_key, priority, min(run_at) AS run_at,
            count(*) AS found, max(run_at) AS seen
       FROM (SELECT endpoint, limit_key, priority, run_at FROM executions
              WHERE queue = :queue AND shard = CAST(:first AS BIGINT) + {number} AND status IN ('QUEUED', 'RETRYING')
                AND {part.format(number=number)} LIMIT {MOST_ROWS}) AS tail
      GROUP BY endpoint, limit_key, priority{group})
    UNION ALL"""  # noqa: S608 - constants of this module
        for number in range(shards)
        for part, group in ((due, ""), (comes, step))
    )
    return f"""{each}
    SELECT NULL, '', '', NULL, now(), (SELECT revision FROM catalog_revision WHERE id = 'flow'), NULL"""  # noqa: S608 - as above


LOOK_1 = hot_statement("executions.look_1", _looks(1))
LOOK_16 = hot_statement("executions.look_16", _looks(PROBED))


class Due(NamedTuple):
    """A lane, and an instant at which executions of it are due."""

    lane: Lane
    run_at: datetime


@dataclass(frozen=True, slots=True)
class Looked:
    """The answer to a look: for each lane the instants at which it has something due, in no order.

    `now` is the database's clock. Up to `known_until` nothing else is due. With `is_full` there may be lanes with
    something due that neither this look has reached nor the one before it.
    """

    now: datetime
    flow_revision: int
    due: list[Due]
    known_until: datetime
    is_full: bool


def look(database: Database, *, queue: str, since: Sequence[datetime], horizon_ms: int) -> Looked:
    """Find the lanes of each shard with something due by `horizon_ms` from now, from `since` of that shard on.

    `since` is SLACK before the last look.
    """
    probed, statement = (1, LOOK_1) if len(since) == 1 else (PROBED, LOOK_16)
    rows = list[Any]()
    for first in range(0, len(since), probed):
        padded = [*since[first : first + probed], *[since[-1]] * probed][:probed]
        params = {f"since_{number}": instant for number, instant in enumerate(padded)}
        rows += database.fetch(statement, params | {"queue": queue, "first": first, "horizon_ms": horizon_ms})
    now: datetime = rows[-1].run_at
    # A shard beyond the known ones is another process's.
    found = [row for row in rows if row.shard is not None and row.shard < len(since)]
    due = [row for row in found if row.run_at <= now]
    comes = [row for row in found if row.run_at > now]
    reached = _reached(comes, max)
    return Looked(
        now=now,
        flow_revision=rows[-1].found or 0,
        due=[_due(row, row.run_at) for row in due] + [_due(row, row.seen) for row in comes],
        known_until=min(reached.values(), default=now + timedelta(milliseconds=horizon_ms)),
        is_full=any(instant > since[shard] + SLACK - COMMITTED_WITHIN for shard, instant in _reached(due, min).items()),
    )


def _reached(rows: Sequence[Any], furthest: Callable[[Iterable[datetime]], datetime]) -> dict[int, datetime]:
    """Return how far the shards were read that have more rows than are read."""
    counts = Counter[int]()
    for row in rows:
        counts[row.shard] += row.found
    return {
        shard: furthest(instant for row in rows if row.shard == shard for instant in (row.run_at, row.seen))
        for shard, count in counts.items()
        if count >= MOST_ROWS
    }


def _due(row: Any, run_at: datetime) -> Due:
    return Due(Lane(row.shard, row.endpoint, row.limit_key, row.priority), run_at)
