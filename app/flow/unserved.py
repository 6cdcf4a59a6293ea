"""Queues in which something is due and that no live worker serves: found by hops over an index, so in bounded time."""

from dataclasses import dataclass, replace
from datetime import datetime

from app.db import Database
from app.sql import statement

MOST_QUEUES = 200
MOST_SHARDS = 64  # of a queue
MOST_DUE = 1000

SERVED = statement(
    "unserved.served",
    """
    SELECT DISTINCT q.queue FROM workers AS w CROSS JOIN LATERAL jsonb_array_elements_text(w.queues) AS q (queue)
     WHERE w.status = 'ALIVE' AND w.lease_expires_at > now()
    """,
)
# The first of a shard is the one that is due for the longest, so each hop tells whether the next shard has anything.
NEXT_SHARD = statement(
    "unserved.next_shard",
    """
    SELECT queue, shard, run_at, now() AS now FROM executions
     WHERE status IN ('QUEUED', 'RETRYING') AND (queue, shard) > (:queue, :shard)
     ORDER BY queue, shard, run_at, execution_id LIMIT 1
    """,
)
DUE = statement(
    "unserved.due",
    """
    SELECT count(*) AS due FROM (
      SELECT execution_id FROM executions
       WHERE queue = :queue AND shard = :shard AND status IN ('QUEUED', 'RETRYING') AND run_at <= now()
       ORDER BY run_at, execution_id LIMIT :most) AS found
    """,
)


@dataclass(frozen=True, slots=True)
class UnservedQueue:
    """A queue without a live worker: since when something in it is due, and how much is, up to MOST_DUE."""

    queue: str
    oldest_due_at: datetime
    oldest_due_seconds: float
    due: int


def unserved(database: Database) -> list[UnservedQueue]:
    """Find them, in the order of their names."""
    served = {row.queue for row in database.fetch(SERVED)}
    found: dict[str, UnservedQueue] = {}
    queue, shard = "", -1
    for _ in range(MOST_QUEUES + MOST_SHARDS):
        rows = database.fetch(NEXT_SHARD, {"queue": queue, "shard": shard})
        if not rows:
            break
        row = rows[0]
        queue, shard = row.queue, row.shard
        if queue in served:
            # On to the next queue.
            shard = 2**62
        elif row.run_at <= row.now:
            seen = found.get(queue)
            most = MOST_DUE - (seen.due if seen else 0)
            due = database.fetch(DUE, {"queue": queue, "shard": shard, "most": most})[0].due if most else 0
            found[queue] = _merged(seen, UnservedQueue(queue, row.run_at, (row.now - row.run_at).total_seconds(), due))
    return list(found.values())


def _merged(one: UnservedQueue | None, other: UnservedQueue) -> UnservedQueue:
    if one is None:
        return other
    return replace(min(one, other, key=lambda each: each.oldest_due_at), due=one.due + other.due)
