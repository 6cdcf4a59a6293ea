"""Look: which lanes of a queue have something due now or soon, by the index in the order of time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from app.db import Database
from app.executions.claiming.lane import Lane
from app.sql import hot_statement

PROBED = 16  # shards per statement
MOST_ROWS = 1000  # that are read of a shard
STEP_MS = 25  # what is due within so much is one instant


# One range of the index per shard, written out, as CockroachDB makes a correlated subquery a join with every claimable
# row. A plain read: what it finds is for the claim to take. What is due by now is a row of its lane's, and so is what
# is due in each further STEP_MS: whoever claims early enough for the last of them is early enough for all. The last row
# is the database's clock and the revision of the rules.
def _looks(shards: int) -> str:
    each = "".join(
        f"""
    (SELECT CAST(:first AS BIGINT) + {number} AS shard, endpoint, limit_key, priority, min(run_at) AS run_at,
            count(*) AS found, max(run_at) AS seen
       FROM (SELECT endpoint, limit_key, priority, run_at FROM executions
              WHERE queue = :queue AND shard = CAST(:first AS BIGINT) + {number} AND status IN ('QUEUED', 'RETRYING')
                AND run_at >= CAST(:since_{number} AS TIMESTAMPTZ)
                AND run_at <= now() + CAST(:horizon_ms AS BIGINT) * INTERVAL '1 millisecond'
              ORDER BY run_at, execution_id LIMIT {MOST_ROWS}) AS tail
      GROUP BY endpoint, limit_key, priority,
               CASE WHEN run_at <= now() THEN 0
                    ELSE CAST(EXTRACT(EPOCH FROM (run_at - now())) * {1000 // STEP_MS} AS BIGINT) + 1 END)
    UNION ALL"""  # noqa: S608 - constants of this module
        for number in range(shards)
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

    `now` is the database's clock. Of each shard, up to `seen` there is nothing else, and `known_until` nothing else is
    due. With `is_full` there may be lanes with something due that were not reached.
    """

    now: datetime
    flow_revision: int
    due: list[Due]
    seen: list[datetime]
    known_until: datetime
    is_full: bool


def look(database: Database, *, queue: str, since: Sequence[datetime], horizon_ms: int) -> Looked:
    """Find the lanes of each shard with something due by `horizon_ms` from now, from `since` of that shard on."""
    probed, statement = (1, LOOK_1) if len(since) == 1 else (PROBED, LOOK_16)
    rows: list[Any] = []
    for first in range(0, len(since), probed):
        padded = [*since[first : first + probed], *[since[-1]] * probed][:probed]
        params = {f"since_{number}": instant for number, instant in enumerate(padded)}
        rows += database.fetch(statement, params | {"queue": queue, "first": first, "horizon_ms": horizon_ms})
    clock = [row for row in rows if row.shard is None][-1]
    now: datetime = clock.run_at
    horizon = now + timedelta(milliseconds=horizon_ms)
    # A shard beyond the known ones is another process's.
    found = [[row for row in rows if row.shard == shard] for shard in range(len(since))]
    reached = [
        max(row.seen for row in of_shard) if sum(row.found for row in of_shard) >= MOST_ROWS else horizon
        for of_shard in found
    ]
    return Looked(
        now=now,
        flow_revision=clock.found or 0,
        due=[_due(row, now) for of_shard in found for row in of_shard],
        seen=[min(now, instant) for instant in reached],
        known_until=min(reached),
        is_full=any(instant <= now for instant in reached),
    )


def _due(row: Any, now: datetime) -> Due:
    lane = Lane(row.shard, row.endpoint, row.limit_key, row.priority)
    return Due(lane, row.run_at if row.run_at <= now else row.seen)
