"""Limiter readings: running executions, tokens, and the earliest next start."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.catalog.endpoints.limits import Rate
from app.features.limits import token_bucket
from app.features.limits.sliding_window import COUNTED
from app.features.limits.store import Limiter, LimiterState
from app.kernel.db import Database
from app.kernel.sql import statement
from app.queue.claiming.arms import CLAIMABLE

MOST_COUNTED = 1000


# Running executions are bounded by the slots of all workers; the count still ends at the limit.
def _gate(of_key: str) -> str:
    return f"""
    SELECT c.now, c.now_ns, g.tat_ns,
           (SELECT count(*) FROM (
              SELECT x.execution_id FROM executions AS x
               WHERE x.status = 'RUNNING' AND x.endpoint = :endpoint{of_key} LIMIT :most) AS running) AS in_flight,
           (SELECT CAST(COALESCE(sum(w.started), 0) AS BIGINT) FROM gate_windows AS w
             WHERE w.gate_id = :gate AND w.bucket > c.now_ns - {COUNTED} * CAST(:bucket_ns AS BIGINT)) AS started,
           (SELECT min(w.bucket) FROM gate_windows AS w
             WHERE w.gate_id = :gate AND w.bucket > c.now_ns - {COUNTED} * CAST(:bucket_ns AS BIGINT)) AS oldest
      FROM (SELECT now() AS now, CAST(EXTRACT(EPOCH FROM now()) * 1000000 AS BIGINT) * 1000 AS now_ns) AS c
      LEFT JOIN gates AS g ON g.gate_id = :gate"""  # noqa: S608 - constants of this package


OF_ENDPOINT = statement("gates.of_endpoint", _gate(""))
OF_KEY = statement("gates.of_key", _gate(" AND x.limit_key = :limit_key"))


# Ordered by an index, so that reading ends with counting: of an endpoint in all queues, of a key in one shard of the
# current queue. QUEUED and RETRYING are adjacent; the range over both keeps the planner from choosing an index of one
# status of all endpoints.
def _waiting(endpoint: str) -> str:
    return f"""count(*) AS waiting FROM (
      SELECT x.execution_id FROM executions AS x
       WHERE (x.endpoint, x.status) >= (CAST({endpoint} AS TEXT), 'QUEUED')
         AND (x.endpoint, x.status) <= (CAST({endpoint} AS TEXT), 'RETRYING')
         AND x.completed_at IS NULL AND x.status IN ('PENDING', 'QUEUED', 'RETRYING')
       ORDER BY x.endpoint, x.status, x.created_at, x.execution_id LIMIT :most) AS found"""  # noqa: S608 - see above


WAITING = statement("gates.waiting", f"SELECT {_waiting(':endpoint')}")
AT_ONCE = 16  # endpoints in a statement
WAITING_OF_SEVERAL = statement(
    "gates.waiting_of_several",
    "\n    UNION ALL ".join(
        f"SELECT {number} AS number, {_waiting(f':endpoint_{number}')}" for number in range(AT_ONCE)
    ),
)
WAITING_OF_KEY = statement(
    "gates.waiting_of_key",
    f"""
    SELECT count(*) AS waiting FROM (
      SELECT x.execution_id FROM executions AS x
       WHERE x.queue = :queue AND x.shard = :shard AND x.endpoint = :endpoint AND x.limit_key = :limit_key
         AND {CLAIMABLE}
       ORDER BY x.priority, x.run_at, x.execution_id LIMIT :most) AS found
    """,  # noqa: S608 - a constant of this package
)


@dataclass(frozen=True, slots=True)
class LimiterReading:
    """Limiter, its state, and the database's time of the read."""

    gate: Limiter
    state: LimiterState
    now: datetime

    @property
    def is_full(self) -> bool:
        """Return whether `max_in_flight` is reached."""
        return self.gate.max_in_flight is not None and self.state.in_flight >= self.gate.max_in_flight

    @property
    def tokens(self) -> int | None:
        """Return how many executions the rate allows to start now; None without a rate."""
        rate = self.gate.rate
        if rate is None:
            return None
        if rate.is_sliding:
            return max(0, rate.count - self.state.started)
        return token_bucket.most_until(self.state.tat_ns, 0, 0, rate)

    def next_at(self, place: int = 1) -> datetime | None:
        """Return when the rate allows the place-th execution to start; of a sliding window, the next execution.

        None if it may start now, or without a rate.
        """
        rate = self.gate.rate
        if rate is None or place <= (self.tokens or 0):
            return None
        if not rate.is_sliding:
            return self._after(token_bucket.starts(self.state.tat_ns, 0, rate, place))
        return self._after(self.state.opens_in_ns(self.gate._replace(max_in_flight=None), self.tokens or 0) or 0)

    def _after(self, ns: int) -> datetime:
        return self.now + timedelta(microseconds=-(-ns // 1000))


def read_limiter(database: Database, gate: Limiter) -> LimiterReading:
    """Read the state of a limiter, which may have no row yet."""
    params = {
        "gate": gate.gate_id,
        "endpoint": gate.endpoint,
        "bucket_ns": gate.rate.bucket_ns if gate.rate is not None else 0,
        "most": max(gate.max_in_flight or 0, MOST_COUNTED) + 1,
    }
    if gate.limit_key:
        (row,) = database.fetch(OF_KEY, params | {"limit_key": gate.limit_key})
    else:
        (row,) = database.fetch(OF_ENDPOINT, params)
    oldest, tat = (0 if value is None else value - row.now_ns for value in (row.oldest, row.tat_ns))
    state = LimiterState(row.tat_ns is None, is_ours=True, in_flight=row.in_flight, started=row.started,
                      oldest_ns=oldest, tat_ns=tat)  # fmt: skip
    return LimiterReading(gate, state, row.now)


def waiting(database: Database, endpoint: str) -> int:
    """Count the queued and retrying executions of an endpoint, up to MOST_COUNTED."""
    found: int = database.fetch(WAITING, {"endpoint": endpoint, "most": MOST_COUNTED})[0].waiting
    return min(found, MOST_COUNTED)


def waiting_of_several(database: Database, endpoints: Sequence[str]) -> dict[str, int]:
    """Count the queued and retrying executions per endpoint, up to MOST_COUNTED each; leaves out zeros."""
    found = dict[str, int]()
    for start in range(0, len(endpoints), AT_ONCE):
        asked = endpoints[start : start + AT_ONCE]
        # No endpoint has an empty name.
        params = {f"endpoint_{number}": asked[number] if number < len(asked) else "" for number in range(AT_ONCE)}
        rows = database.fetch(WAITING_OF_SEVERAL, params | {"most": MOST_COUNTED})
        found |= {asked[row.number]: min(row.waiting, MOST_COUNTED) for row in rows if row.waiting}
    return found


def waiting_of_key(database: Database, endpoint: str, limit_key: str, *, queue: str, shards: int) -> int:
    """Count the queued and retrying executions of a key in a queue, up to MOST_COUNTED."""
    params: dict[str, object] = {"endpoint": endpoint, "limit_key": limit_key, "queue": queue}
    found = 0
    for shard in range(shards):
        if found < MOST_COUNTED:
            more = {"shard": shard, "most": MOST_COUNTED - found}
            found += database.fetch(WAITING_OF_KEY, params | more)[0].waiting
    return found


def rate_in_words(rate: Rate) -> str:
    shown = rate.as_json()
    return f"{shown['count']} per {shown['per']}"
