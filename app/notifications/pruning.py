"""Pruning: groups that were told long ago, what they were about, and what is left of rules that are gone."""

from app.db import Database
from app.sql import statement

# Longer than any rule may keep a subject from being told again, whatever the retention.
LEAST_MS = 8 * 24 * 3600 * 1000

GROUPS = statement(
    "notifications.prune_groups",
    """
    WITH page AS MATERIALIZED (
      SELECT group_id FROM notification_groups
       WHERE closed_at IS NOT NULL AND closed_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'
       ORDER BY closed_at, group_id LIMIT :limit)
    DELETE FROM notification_groups WHERE group_id IN (SELECT group_id FROM page) RETURNING group_id
    """,
)
SUBJECTS = statement(
    "notifications.prune_subjects",
    """
    WITH page AS MATERIALIZED (
      SELECT rule, event, subject FROM notification_subjects
       WHERE noted_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'
       ORDER BY noted_at, rule, event, subject LIMIT :limit)
    DELETE FROM notification_subjects AS s USING page
     WHERE s.rule = page.rule AND s.event = page.event AND s.subject = page.subject
    RETURNING s.subject
    """,
)
# Noted by who had read the rule just before it was deleted.
ASTRAY = statement(
    "notifications.prune_parts",
    """
    WITH page AS MATERIALIZED (
      SELECT rule, part_id FROM notification_parts AS p
       WHERE NOT EXISTS (SELECT 1 FROM notification_rules AS r WHERE r.name = p.rule)
       ORDER BY rule, part_id LIMIT :limit)
    DELETE FROM notification_parts AS p USING page WHERE p.rule = page.rule AND p.part_id = page.part_id
    RETURNING p.part_id
    """,
)


def prune_groups(database: Database, *, retention_ms: int, limit: int) -> int:
    """Delete groups that were told before the retention, the oldest first; returns how many."""
    return len(database.fetch(GROUPS, {"retention_ms": max(retention_ms, LEAST_MS), "limit": limit}))


def prune_subjects(database: Database, *, limit: int) -> int:
    """Delete what no rule needs any more in order not to repeat itself; returns how many subjects."""
    return len(database.fetch(SUBJECTS, {"retention_ms": LEAST_MS, "limit": limit}))


def prune_astray(database: Database, *, limit: int) -> int:
    """Delete what was noted for rules that are gone; returns how many parts."""
    return len(database.fetch(ASTRAY, {"limit": limit}))
