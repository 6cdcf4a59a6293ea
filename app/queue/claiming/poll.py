"""Poll: find the partitions of a queue with executions that are due now or soon, by the index in order of time."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from app.kernel.db import Database
from app.kernel.sql import hot_statement, of_regions
from app.queue.claiming.partition import Partition
from app.queue.executions.watermark import SLACK

PROBED = 16  # shards per statement
MAX_ROWS = 1000  # read of a shard: due rows, and later rows
STEP_MS = 25  # executions due within one step count as due at one instant
COMMITTED_WITHIN = timedelta(seconds=1)  # nearly all transactions last less


# Two ranges of the index per shard, written out: CockroachDB turns a correlated subquery with LIMIT into a join with
# every claimable row. A plain read; claims take the rows. Due rows are read from now backwards, so that the front of a
# long backlog does not hide new rows. Due rows become one row per partition. Later rows become one row per partition
# and STEP_MS: a claim early enough for the last row of a step is early enough for all its rows. Each row of the answer
# has the clock and the revision of the rules; one row is there even if nothing is due.
def _polls(shards: int) -> str:
    later = "run_at > now() AND run_at <= now() + CAST(:horizon_ms AS BIGINT) * INTERVAL '1 millisecond'"
    step = f"CAST(EXTRACT(EPOCH FROM (run_at - now())) * {1000 // STEP_MS} AS BIGINT)"
    arms = " UNION ALL ".join(
        f"""
      (SELECT CAST(:first AS BIGINT) + {number} AS shard, endpoint, limit_key, priority, run_at, {group} AS step
         FROM executions
        WHERE queue = :queue AND shard = CAST(:first AS BIGINT) + {number} AND status IN ('QUEUED', 'RETRYING')
          AND {instants}{of_regions()} ORDER BY run_at{order}, execution_id{order} LIMIT {MAX_ROWS})"""  # noqa: S608
        for number in range(shards)
        for instants, order, group in (
            (f"run_at >= CAST(:since_{number} AS TIMESTAMPTZ) AND run_at <= now()", " DESC", "-1"),
            (later, "", step),
        )
    )
    return f"""
    SELECT clock.db_now, found.*
      FROM (SELECT now() AS db_now) AS clock
      LEFT JOIN (SELECT shard, endpoint, limit_key, priority,
                        min(run_at) AS run_at, count(*) AS found, max(run_at) AS seen
                   FROM ({arms}) AS entries
                  GROUP BY shard, endpoint, limit_key, priority, step) AS found ON true
    """  # noqa: S608 - constants of this module


POLL_1 = hot_statement("executions.poll_1", _polls(1))
POLL_16 = hot_statement("executions.poll_16", _polls(PROBED))


class Due(NamedTuple):
    """A partition, and an instant at which executions of it are due."""

    partition: Partition
    run_at: datetime


class Polled(NamedTuple):
    """Answer to a poll: for each partition the instants at which executions are due, in no order.

    `now` is the database's clock. Up to `known_until` nothing else is due. With `is_full` there may be due partitions
    that neither this poll nor the previous poll has reached, with `is_cut` only before the watermark.
    """

    now: datetime
    due: list[Due]
    known_until: datetime
    is_full: bool
    is_cut: bool


def poll(
    database: Database, *, queue: str, since: Sequence[datetime], horizon_ms: int, late_since: datetime | None = None
) -> Polled:
    """Find the partitions of each shard with executions due by `horizon_ms` from now, from `since` of that shard on.

    `since` is the watermark, SLACK before the previous poll. The read starts before it at `late_since`.
    """
    probed, statement = (1, POLL_1) if len(since) == 1 else (PROBED, POLL_16)
    rows, ranges = list[Any](), defaultdict[tuple[int, bool], list[Any]](list)
    starts = since if late_since is None else [min(mark, late_since) for mark in since]
    for first in range(0, len(since), probed):
        padded = [*starts[first : first + probed], *[starts[-1]] * probed][:probed]
        params = {f"since_{number}": instant for number, instant in enumerate(padded)}
        rows += database.fetch(statement, params | {"queue": queue, "first": first, "horizon_ms": horizon_ms})
    now: datetime = max(row.db_now for row in rows)
    for row in rows:
        if row.shard is not None and row.shard < len(since):  # another process serves more shards
            ranges[row.shard, row.run_at > now].append(row)
    due, known_until, is_full, is_cut = list[Due](), now + timedelta(milliseconds=horizon_ms), False, False
    for (shard, is_later), found in ranges.items():
        for row in found:
            partition = Partition(row.shard, row.endpoint, row.limit_key, row.priority)
            due.append(Due(partition, row.seen if is_later else row.run_at))
        if sum(row.found for row in found) < MAX_ROWS:
            continue
        if is_later:
            known_until = min(known_until, max(row.seen for row in found))
        elif min(row.run_at for row in found) > since[shard] + SLACK - COMMITTED_WITHIN:
            is_full = True
        else:
            is_cut = late_since is not None
    return Polled(now, due, known_until, is_full, is_cut)
