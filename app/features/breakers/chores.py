"""Chore of breakers: delete breakers without a recent failure, counts older than any window, and old events."""

from functools import partial

from sqlalchemy import TextClause

from app.features.breakers.store import MAX_SLOTS, SLOT_NOW
from app.kernel.sql import statement
from app.scheduler.chore import BATCH, Chore, ChoreContext, Counts

# Closed, or open and not probed, for an hour. The end of an open breaker is an event.
_IS_OLD = "GREATEST(watched_until, COALESCE(probe_until, open_until, watched_until)) < now() - INTERVAL '1 hour'"
PRUNE = statement(
    "breaker_pruning.prune",
    f"""
    WITH page AS MATERIALIZED (SELECT target FROM breakers WHERE {_IS_OLD} ORDER BY target LIMIT :limit),
    gone AS (
      DELETE FROM breakers WHERE target IN (SELECT target FROM page) AND {_IS_OLD} RETURNING target, state),
    led AS (DELETE FROM breaker_endpoints WHERE target IN (SELECT target FROM gone) RETURNING target),
    counted AS (DELETE FROM breaker_counts WHERE target IN (SELECT target FROM gone) RETURNING target),
    forgotten AS (
      INSERT INTO breaker_events (event_id, target, from_state, to_state, reason)
      SELECT 'evt_' || md5(CAST(gen_random_uuid() AS TEXT)), target, state, 'closed', 'FORGOTTEN'
        FROM gone WHERE state <> 'closed'
      RETURNING target)
    SELECT state FROM gone
    """,  # noqa: S608 - a constant of this module
)
# The breaker of a target that keeps failing stays, but its counts older than the longest window go.
PRUNE_COUNTS = statement(
    "breaker_pruning.prune_counts",
    f"""
    WITH page AS MATERIALIZED (
      SELECT target, slot, endpoint FROM breaker_counts WHERE slot < {SLOT_NOW} - {MAX_SLOTS}
       ORDER BY target, slot, endpoint LIMIT :limit)
    DELETE FROM breaker_counts
     WHERE (target, slot, endpoint) IN (SELECT target, slot, endpoint FROM page) RETURNING slot
    """,  # noqa: S608 - a constant of this module
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


def chores(context: ChoreContext) -> list[Chore]:

    def delete(sql: TextClause) -> int:
        return len(context.database.fetch(sql, {"retention_ms": context.retention_ms, "limit": BATCH}))

    def prune_breakers() -> Counts:
        return Counts(
            breakers=context.until_short(partial(delete, PRUNE)),
            breaker_counts=context.until_short(partial(delete, PRUNE_COUNTS)),
            breaker_events=context.until_short(partial(delete, PRUNE_EVENTS), 1),
        )

    return [Chore("prune_breakers", 60, prune_breakers)]
