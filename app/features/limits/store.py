"""Rows of limiters, one per limited endpoint and key, and reads of their states.

A row serialises the claims through its limiter. The first claim that misses a row inserts it; a chore deletes idle
rows.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from app.features.limits.rules import COUNTED, Limiter, LimiterState, most_until, starts
from app.kernel.db import Database
from app.kernel.db.deletion import MAX_NAMED, has_locked_child, unlocked_children
from app.kernel.db.reads import Reads
from app.kernel.sql import read_together, statement
from app.queue.claiming.arms import CLAIMABLE

MAX_COUNTED = 1000  # executions

ADD = statement(
    "limiters.add",
    """
    INSERT INTO gates (gate_id) SELECT u.gate_id FROM unnest(CAST(:gates AS TEXT[])) AS u (gate_id)
    ON CONFLICT (gate_id) DO NOTHING
    """,
)

_WINDOWS_KEY = ["gate_id", "slot"]
# After this idle time no start counts: the longest window and the longest span of a bucket are one day.
PRUNE = statement(
    "limiters.prune",
    """
    WITH page AS MATERIALIZED (
      SELECT gate_id, used_at < now() - INTERVAL '2 days' AS is_idle FROM gates
       WHERE gate_id > :after ORDER BY gate_id LIMIT :limit),
    free AS MATERIALIZED (
      SELECT gate_id FROM gates WHERE gate_id IN (SELECT gate_id FROM page WHERE is_idle)
       ORDER BY gate_id LIMIT :limit FOR UPDATE SKIP LOCKED),
    {unlocked_children},
    gone AS (
      DELETE FROM gates AS g
       WHERE g.gate_id IN (SELECT gate_id FROM free) AND g.used_at < now() - INTERVAL '2 days'
         AND NOT {has_locked_child}
      RETURNING gate_id),
    no_windows AS (DELETE FROM gate_windows WHERE gate_id IN (SELECT gate_id FROM gone) RETURNING gate_id)
    SELECT (SELECT count(*) FROM page) AS seen, (SELECT max(gate_id) FROM page) AS reached,
           (SELECT count(*) FROM gone) AS deleted,
           ARRAY(SELECT gate_id FROM page WHERE is_idle AND gate_id NOT IN (SELECT gate_id FROM gone)
                  ORDER BY gate_id LIMIT {max_named}) AS locked
    """,
    unlocked_children=unlocked_children("gate_windows", _WINDOWS_KEY, "gate_id", "free"),
    has_locked_child=has_locked_child("gate_windows", _WINDOWS_KEY, "gate_id", "g"),
    max_named=MAX_NAMED,
)
# Running executions are bounded by the slots of all workers; the count still ends at the limit.
READING = statement(
    "limiters.reading",
    """
    SELECT c.now, c.now_ns, g.tat_ns,
           (SELECT count(*) FROM (
              SELECT x.execution_id FROM executions AS x
               WHERE x.status = 'RUNNING' AND x.endpoint = :endpoint
                 AND (CAST(:limit_key AS TEXT) = '' OR x.limit_key = :limit_key) LIMIT :most) AS running) AS in_flight,
           (SELECT CAST(COALESCE(sum(w.started), 0) AS BIGINT) FROM gate_windows AS w
             WHERE w.gate_id = :gate AND w.bucket > c.now_ns - {counted} * CAST(:bucket_ns AS BIGINT)) AS started,
           (SELECT min(w.bucket) FROM gate_windows AS w
             WHERE w.gate_id = :gate AND w.bucket > c.now_ns - {counted} * CAST(:bucket_ns AS BIGINT)) AS oldest
      FROM (SELECT now() AS now, CAST(EXTRACT(EPOCH FROM now()) * 1000000 AS BIGINT) * 1000 AS now_ns) AS c
      LEFT JOIN gates AS g ON g.gate_id = :gate
    """,
    counted=COUNTED,
)
read_together(READING, gate="TEXT", endpoint="TEXT", limit_key="TEXT", bucket_ns="BIGINT")
AT_ONCE = 16  # endpoints in a statement
# Ordered by an index, so that reading ends with counting: of an endpoint in all queues, of a key in one shard of the
# current queue. QUEUED and RETRYING are adjacent; the range over both keeps the planner from choosing an index of one
# status of all endpoints.
WAITING_OF_ENDPOINTS = statement(
    "limiters.waiting_of_endpoints",
    "\n    UNION ALL ".join(
        f"""SELECT {number} AS number, count(*) AS waiting FROM (
      SELECT x.execution_id FROM executions AS x
       WHERE (x.endpoint, x.status) >= (CAST(:endpoint_{number} AS TEXT), 'QUEUED')
         AND (x.endpoint, x.status) <= (CAST(:endpoint_{number} AS TEXT), 'RETRYING')
         AND x.completed_at IS NULL AND x.status IN ('PENDING', 'QUEUED', 'RETRYING')
       ORDER BY x.endpoint, x.status, x.created_at, x.execution_id LIMIT :most) AS found"""  # noqa: S608 - numbers
        for number in range(AT_ONCE)
    ),
)
WAITING_OF_KEY = statement(
    "limiters.waiting_of_key",
    """
    SELECT count(*) AS waiting FROM (
      SELECT x.execution_id FROM executions AS x
       WHERE x.queue = :queue AND x.shard = :shard AND x.endpoint = :endpoint AND x.limit_key = :limit_key
         AND {claimable}
       ORDER BY x.priority, x.run_at, x.execution_id LIMIT :most) AS found
    """,
    claimable=CLAIMABLE,
)


class LimiterReading(NamedTuple):
    """Limiter, its state, and the database's time of the read."""

    limiter: Limiter
    state: LimiterState
    now: datetime

    @property
    def is_full(self) -> bool:
        return self.limiter.max_in_flight is not None and self.state.in_flight >= self.limiter.max_in_flight

    @property
    def tokens(self) -> int | None:
        """Return how many executions the rate allows to start now; None without a rate."""
        rate = self.limiter.rate
        if rate is None:
            return None
        if rate.is_sliding:
            return max(0, rate.count - self.state.started)
        return most_until(self.state.tat_ns, 0, 0, rate)

    def next_at(self, place: int = 1) -> datetime | None:
        """Return when the rate allows the place-th execution to start; of a sliding window, the next execution.

        None if it may start now, or without a rate.
        """
        rate = self.limiter.rate
        if rate is None or place <= (self.tokens or 0):
            return None
        if not rate.is_sliding:
            return self._after(starts(self.state.tat_ns, 0, rate, place))
        return self._after(self.state.opens_in_ns(self.limiter._replace(max_in_flight=None), self.tokens or 0) or 0)

    def _after(self, ns: int) -> datetime:
        return self.now + timedelta(microseconds=-(-ns // 1000))


def read_limiter(reads: Reads, limiter: Limiter) -> LimiterReading:
    """Read the state of a limiter, which may have no row yet."""
    params = {
        "gate": limiter.gate_id,
        "endpoint": limiter.endpoint,
        "limit_key": limiter.limit_key,
        "bucket_ns": limiter.rate.bucket_ns if limiter.rate is not None else 0,
        "most": _most_counted(limiter.max_in_flight or 0) + 1,
    }
    (row,) = reads.fetch(READING, params)
    oldest, tat = (0 if value is None else value - row.now_ns for value in (row.oldest, row.tat_ns))
    state = LimiterState(row.tat_ns is None, True, row.in_flight, row.started, oldest, tat)
    return LimiterReading(limiter, state, row.now)


def _most_counted(max_in_flight: int) -> int:
    """Return a power of ten: limiters with the same are read together."""
    return max(MAX_COUNTED, int("1" + "0" * len(str(max_in_flight))))


def waiting_of_endpoints(database: Database, endpoints: Sequence[str]) -> dict[str, int]:
    """Count the queued and retrying executions per endpoint, up to MAX_COUNTED each; leaves out zeros."""
    found = dict[str, int]()
    for start in range(0, len(endpoints), AT_ONCE):
        asked = endpoints[start : start + AT_ONCE]
        # No endpoint has an empty name.
        params = {f"endpoint_{number}": asked[number] if number < len(asked) else "" for number in range(AT_ONCE)}
        rows = database.fetch(WAITING_OF_ENDPOINTS, params | {"most": MAX_COUNTED})
        found |= {asked[row.number]: min(row.waiting, MAX_COUNTED) for row in rows if row.waiting}
    return found


def waiting_of_key(database: Database, endpoint: str, limit_key: str, *, queue: str, shards: int) -> int:
    """Count the queued and retrying executions of a key in a queue, up to MAX_COUNTED."""
    params: dict[str, object] = {"endpoint": endpoint, "limit_key": limit_key, "queue": queue}
    found = 0
    for shard in range(shards):
        if found < MAX_COUNTED:
            more = {"shard": shard, "most": MAX_COUNTED - found}
            found += database.fetch(WAITING_OF_KEY, params | more)[0].waiting
    return found


def add(database: Database, gate_ids: Sequence[str]) -> None:
    database.fetch(ADD, {"gates": sorted(gate_ids)})


def prune(database: Database, *, after: str, limit: int) -> tuple[str | None, int, Sequence[str]]:
    """Delete idle rows among the next `limit` rows after a cursor, except locked rows.

    Returns the next cursor (None at the end), the number of deleted rows, and the ids of locked rows.

    A concurrent claim through a deleted limiter claims nothing; a claim that comes first keeps the row.
    """
    (row,) = database.fetch(PRUNE, {"after": after, "limit": limit})
    return row.reached if row.seen == limit else None, row.deleted, row.locked
