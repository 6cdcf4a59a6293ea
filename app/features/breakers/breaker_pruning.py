"""Pruning of breakers: those that nobody needs any more, their counts, and old events."""

from collections.abc import Callable

from app.features.breakers import target_rows
from app.features.breakers.rules import Reason, Transition, slot_at
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.sql import statement
from schema.states import BreakerState

# Open, and nothing has been sent there for an hour after it might have been probed.
FORGOTTEN = statement(
    "breaker_pruning.forgotten",
    """
    SELECT target, state, revision, changed_at, open_until, probe_worker, probe_until FROM breakers
     WHERE state IN ('open', 'half_open') AND COALESCE(probe_until, open_until) < now() - INTERVAL '1 hour'
     ORDER BY target LIMIT :limit
    """,
)
PRUNE = statement(
    "breaker_pruning.prune",
    """
    WITH page AS MATERIALIZED (
      SELECT target FROM breakers
       WHERE state = 'closed' AND watched_until < now() - INTERVAL '1 hour' ORDER BY target LIMIT :limit),
    gone AS (
      DELETE FROM breakers
       WHERE target IN (SELECT target FROM page) AND state = 'closed' AND watched_until < now() - INTERVAL '1 hour'
      RETURNING target),
    led AS (DELETE FROM breaker_endpoints WHERE target IN (SELECT target FROM gone) RETURNING target),
    counted AS (DELETE FROM breaker_counts WHERE target IN (SELECT target FROM gone) RETURNING target)
    SELECT target FROM gone
    """,
)
PRUNE_EVENTS = statement(
    "breaker_pruning.prune_events",
    """
    WITH page AS MATERIALIZED (
      SELECT event_id FROM breaker_events
       WHERE occurred_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'
       ORDER BY occurred_at, event_id LIMIT :limit)
    DELETE FROM breaker_events WHERE event_id IN (SELECT event_id FROM page) RETURNING event_id
    """,
)
COUNTED = statement(
    "breaker_pruning.counted",
    "SELECT DISTINCT target FROM breaker_counts WHERE target > :after ORDER BY target LIMIT :limit",
)
# By target, with which the key begins. No window is longer than ten minutes, which are 60 slots.
PRUNE_COUNTS = statement(
    "breaker_pruning.prune_counts",
    """
    WITH page AS MATERIALIZED (
      SELECT target, slot, worker_id FROM breaker_counts
       WHERE target = :target AND slot < CAST(:slot AS BIGINT) ORDER BY target, slot, worker_id LIMIT :limit)
    DELETE FROM breaker_counts AS c USING page AS p
     WHERE c.target = p.target AND c.slot = p.slot AND c.worker_id = p.worker_id RETURNING c.slot
    """,
)
NOW = statement("breaker_pruning.now", "SELECT now() AS now")
KEPT_SLOTS = 62


def forget(database: Database, *, limit: int) -> int:
    """Close up to `limit` breakers of targets to which nothing was sent for long; returns how many there were."""
    rows = database.fetch(FORGOTTEN, {"limit": limit})
    for row in rows:
        target_rows.change(database, target_rows.noted(row), Transition(BreakerState.CLOSED, Reason.FORGOTTEN), None)
    return len(rows)


def prune(database: Database, *, limit: int) -> int:
    """Delete up to `limit` breakers that are closed and had no failure of late; returns how many."""
    return len(database.fetch(PRUNE, {"limit": limit}))


def prune_counts(database: Database, *, limit: int, stopping: Callable[[], bool]) -> int:
    """Delete the counts that are older than any window, up to `limit` in a statement; returns how many."""
    (row,) = database.fetch(NOW)
    oldest = slot_at((row.now - EPOCH).total_seconds()) - KEPT_SLOTS
    deleted, after = 0, ""
    while not stopping() and (found := database.fetch(COUNTED, {"after": after, "limit": limit})):
        for row in found:
            params = {"target": row.target, "slot": oldest, "limit": limit}
            while not stopping() and (gone := len(database.fetch(PRUNE_COUNTS, params))):
                deleted += gone
        after = found[-1].target
    return deleted


def prune_events(database: Database, *, retention_ms: int, limit: int) -> int:
    """Delete up to `limit` events that are older than the retention; returns how many."""
    return len(database.fetch(PRUNE_EVENTS, {"retention_ms": retention_ms, "limit": limit}))
