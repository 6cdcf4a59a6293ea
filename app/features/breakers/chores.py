"""Chore of breakers: delete breakers without a recent failure, counts older than any window, and old events."""

from app.features.breakers.store import MAX_SLOTS, SLOT_NOW
from app.kernel.db.deletion import MAX_NAMED, deletion, has_locked_child, named, unlocked_children
from app.kernel.sql import statement
from app.scheduler.chore import Chore, ChoreContext, Counts

_ENDPOINTS_KEY = ["target", "endpoint"]
# Closed, or open and not probed, for an hour. The end of an open breaker is an event. Counts go by their age.
_IS_OLD = "GREATEST(watched_until, COALESCE(probe_until, open_until, watched_until)) < now() - INTERVAL '1 hour'"
PRUNE = statement(
    "breaker_pruning.prune",
    """
    WITH page AS MATERIALIZED (
      SELECT target FROM breakers WHERE {is_old} ORDER BY target LIMIT :limit FOR UPDATE SKIP LOCKED),
    {unlocked_children},
    gone AS (
      DELETE FROM breakers AS b WHERE b.target IN (SELECT target FROM page) AND {is_old}
         AND NOT {has_locked_child}
      RETURNING target, state),
    led AS (DELETE FROM breaker_endpoints WHERE target IN (SELECT target FROM gone) RETURNING target),
    forgotten AS (
      INSERT INTO breaker_events (event_id, target, from_state, to_state, reason)
      SELECT 'evt_' || md5(CAST(gen_random_uuid() AS TEXT)), target, state, 'closed', 'FORGOTTEN'
        FROM gone WHERE state <> 'closed'
      RETURNING target)
    SELECT (SELECT count(*) FROM gone) AS deleted,
           ARRAY(SELECT {named} FROM breakers
                  WHERE {is_old} AND (SELECT count(*) FROM page) < CAST(:limit AS BIGINT)
                    AND target NOT IN (SELECT target FROM gone)
                  ORDER BY target LIMIT {max_named}) AS locked
    """,
    is_old=_IS_OLD,
    unlocked_children=unlocked_children("breaker_endpoints", _ENDPOINTS_KEY, "target", "page"),
    has_locked_child=has_locked_child("breaker_endpoints", _ENDPOINTS_KEY, "target", "b"),
    named=named("breakers", ["target"]),
    max_named=MAX_NAMED,
)
# The breaker of a target that keeps failing stays, but its counts older than the longest window go.
PRUNE_COUNTS = deletion(
    "breaker_pruning.prune_counts",
    "breaker_counts",
    ["target", "slot", "endpoint"],
    f"slot < {SLOT_NOW} - {MAX_SLOTS}",
)
PRUNE_EVENTS = deletion(
    "breaker_pruning.prune_events",
    "breaker_events",
    ["event_id"],
    "occurred_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'",
    time="occurred_at",
)


def chores(context: ChoreContext) -> list[Chore]:

    def prune_breakers() -> Counts:
        return Counts(
            breaker_counts=context.delete(PRUNE_COUNTS),
            breakers=context.delete(PRUNE),
            breaker_events=context.delete(PRUNE_EVENTS, {"retention_ms": context.retention_ms}),
        )

    return [Chore("prune_breakers", 60, prune_breakers)]
