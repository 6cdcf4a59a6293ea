"""Gates: one for each endpoint and each key that is limited; its row serialises the claims that go through it.

A row is made by the first claim that misses it, and deleted after it was idle for long.
"""

from collections.abc import Sequence
from typing import NamedTuple

from app.catalog.endpoints.limits import NS_PER_MS, KeyLimits, Limits, Rate
from app.features.limits import sliding_window, token_bucket
from app.kernel.db import Database
from app.kernel.sql import statement

UNBOUNDED = 1_000_000
LONGEST_AHEAD_NS = 200 * NS_PER_MS  # that a start is allowed before its instant
RING = 128  # slots for the hundredths of a window, more than are counted

ADD = statement(
    "gates.add",
    """
    INSERT INTO gates (gate_id) SELECT u.gate_id FROM unnest(CAST(:gates AS TEXT[])) AS u (gate_id)
    ON CONFLICT (gate_id) DO NOTHING
    """,
)

# Of a gate that was idle for so long nothing counts any more: the longest window is a day, and a bucket holds no more.
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


class Gate(NamedTuple):
    """What bounds the claims of an endpoint or of one of its keys, for which `limit_key` is not empty.

    A token bucket gives starts out up to `ahead_ns` before their instants.
    """

    gate_id: str
    endpoint: str
    limit_key: str
    max_in_flight: int | None
    rate: Rate | None
    ahead_ns: int


class GateState(NamedTuple):
    """A gate as a claim has found it; instants in nanoseconds from the claim on.

    Of a gate that is not `is_ours` nothing was claimed: another worker claimed there at the same moment.
    """

    is_missing: bool
    is_ours: bool
    in_flight: int
    started: int  # within the window
    oldest_ns: int  # the beginning of the oldest hundredth that counts
    tat_ns: int

    def room(self, gate: Gate, claimed: int) -> int:
        """Return how many more it lets through now that so many were claimed."""
        room = UNBOUNDED
        if gate.max_in_flight is not None:
            room = gate.max_in_flight - self.in_flight - claimed
        if gate.rate is not None and gate.rate.is_sliding:
            room = min(room, gate.rate.count - self.started - claimed)
        elif gate.rate is not None:
            left = token_bucket.most_until(self.tat_ns, 0, gate.ahead_ns, gate.rate)
            room = min(room, left - claimed)
        return max(0, room)

    def opens_in_ns(self, gate: Gate, claimed: int) -> int | None:
        """Return when its rate lets the next one through; None where that depends on the end of what runs."""
        rate = gate.rate
        if rate is None or (gate.max_in_flight is not None and self.in_flight + claimed >= gate.max_in_flight):
            return None
        if not rate.is_sliding:
            return max(0, token_bucket.starts(self.tat_ns, 0, rate, claimed + 1) - gate.ahead_ns)
        if self.started + claimed < rate.count:
            return 0
        return max(0, sliding_window.opens(self.oldest_ns if self.started else -rate.bucket_ns, rate))


def gates_of(limits: Limits, endpoint: str, limit_key: str, *, most_ahead: int) -> list[Gate]:
    """Return the gates of a lane, at most two; `most_ahead` starts are given out before their instants."""
    found = []
    if limits.max_in_flight is not None or limits.rate is not None:
        found.append(_gate(endpoint, "", limits, most_ahead))
    keyed = limits.per_key
    if limit_key and keyed is not None and (keyed.max_in_flight is not None or keyed.rate is not None):
        found.append(_gate(endpoint, limit_key, keyed, most_ahead))
    return found


def _gate(endpoint: str, limit_key: str, limits: Limits | KeyLimits, most_ahead: int) -> Gate:
    rate = limits.rate
    ahead = 0 if rate is None or rate.is_sliding else min(LONGEST_AHEAD_NS, most_ahead * rate.period_ns)
    return Gate(endpoint + limit_key, endpoint, limit_key, limits.max_in_flight, rate, ahead)


def add(database: Database, gates: Sequence[str]) -> None:
    """Make the rows of gates that have none."""
    database.fetch(ADD, {"gates": sorted(gates)})


def prune(database: Database, *, after: str, limit: int) -> tuple[str | None, int]:
    """Delete the idle ones of the next gates behind one; returns the last that was seen, None at the end, and how many.

    A claim that goes through one at this moment claims nothing, or keeps it.
    """
    (row,) = database.fetch(PRUNE, {"after": after, "limit": limit})
    return row.reached if row.seen == limit else None, row.deleted
