"""Rows of limiters, one per limited endpoint and key; a row serialises the claims that use its limiter.

The first claim that misses a row inserts it; a chore deletes idle rows.
"""

from collections.abc import Sequence
from typing import NamedTuple

from app.catalog.endpoints.limits import NS_PER_MS, EndpointLimits, KeyLimits, Rate
from app.features.limits import sliding_window, token_bucket
from app.kernel.db import Database
from app.kernel.sql import statement

UNBOUNDED = 1_000_000
LONGEST_AHEAD_NS = 200 * NS_PER_MS  # by which a start is claimed before its instant

ADD = statement(
    "gates.add",
    """
    INSERT INTO gates (gate_id) SELECT u.gate_id FROM unnest(CAST(:gates AS TEXT[])) AS u (gate_id)
    ON CONFLICT (gate_id) DO NOTHING
    """,
)

# After this idle time no start counts: the longest window and the longest span of a bucket are one day.
PRUNE = statement(
    "gates.prune",
    """
    WITH page AS MATERIALIZED (
      SELECT gate_id, used_at FROM gates WHERE gate_id > :after ORDER BY gate_id LIMIT :limit),
    gone AS (
      DELETE FROM gates
       WHERE gate_id IN (SELECT gate_id FROM page WHERE used_at < now() - INTERVAL '2 days')
         AND used_at < now() - INTERVAL '2 days'
      RETURNING gate_id),
    no_windows AS (DELETE FROM gate_windows WHERE gate_id IN (SELECT gate_id FROM gone) RETURNING gate_id)
    SELECT (SELECT count(*) FROM page) AS seen, (SELECT max(gate_id) FROM page) AS reached,
           (SELECT count(*) FROM gone) AS deleted
    """,
)


class Limiter(NamedTuple):
    """Bounds of the claims of an endpoint, or of one of its keys if `limit_key` is not empty.

    A token bucket allows claims up to `ahead_ns` before the instant of their start.
    """

    gate_id: str
    endpoint: str
    limit_key: str
    max_in_flight: int | None
    rate: Rate | None
    ahead_ns: int


class LimiterState(NamedTuple):
    """State of a limiter as a claim found it; instants in nanoseconds from the claim on.

    If not `is_ours`, nothing was claimed, because another worker was claiming through the limiter.
    """

    is_missing: bool
    is_ours: bool
    in_flight: int
    started: int  # within the window
    oldest_ns: int  # the beginning of the oldest hundredth that counts
    tat_ns: int

    def room(self, gate: Limiter, claimed: int) -> int:
        """Return how many more executions it admits after `claimed`."""
        room = UNBOUNDED
        if gate.max_in_flight is not None:
            room = gate.max_in_flight - self.in_flight - claimed
        if gate.rate is not None and gate.rate.is_sliding:
            room = min(room, gate.rate.count - self.started - claimed)
        elif gate.rate is not None:
            left = token_bucket.most_until(self.tat_ns, 0, gate.ahead_ns, gate.rate)
            room = min(room, left - claimed)
        return max(0, room)

    def opens_in_ns(self, gate: Limiter, claimed: int) -> int | None:
        """Return when the rate admits the next execution; None if an execution must end first."""
        rate = gate.rate
        if rate is None or (gate.max_in_flight is not None and self.in_flight + claimed >= gate.max_in_flight):
            return None
        if not rate.is_sliding:
            return max(0, token_bucket.starts(self.tat_ns, 0, rate, claimed + 1) - gate.ahead_ns)
        if self.started + claimed < rate.count:
            return 0
        return max(0, sliding_window.opens(self.oldest_ns if self.started else -rate.bucket_ns, rate))


def limiters_of(limits: EndpointLimits, endpoint: str, limit_key: str, *, most_ahead: int) -> list[Limiter]:
    """Return the limiters of a partition, at most two; `most_ahead` starts may be claimed before their instants."""
    found = []
    if limits.max_in_flight is not None or limits.rate is not None:
        found.append(_gate(endpoint, "", limits, most_ahead))
    keyed = limits.per_key
    if limit_key and keyed is not None and (keyed.max_in_flight is not None or keyed.rate is not None):
        found.append(_gate(endpoint, limit_key, keyed, most_ahead))
    return found


def _gate(endpoint: str, limit_key: str, limits: EndpointLimits | KeyLimits, most_ahead: int) -> Limiter:
    rate = limits.rate
    ahead = 0 if rate is None or rate.is_sliding else min(LONGEST_AHEAD_NS, most_ahead * rate.period_ns)
    return Limiter(endpoint + limit_key, endpoint, limit_key, limits.max_in_flight, rate, ahead)


def add(database: Database, gates: Sequence[str]) -> None:
    """Insert the missing rows of limiters."""
    database.fetch(ADD, {"gates": sorted(gates)})


def prune(database: Database, *, after: str, limit: int) -> tuple[str | None, int]:
    """Delete idle rows among the next `limit` rows after a cursor; return the next cursor (None at the end) and count.

    A concurrent claim through a deleted limiter claims nothing; a claim that comes first keeps the row.
    """
    (row,) = database.fetch(PRUNE, {"after": after, "limit": limit})
    return row.reached if row.seen == limit else None, row.deleted
