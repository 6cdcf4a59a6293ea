"""Pruning: groups sent before the retention, expired subjects, and rows of deleted rules."""

from app.kernel.db import Database
from app.kernel.sql import statement

# Longer than the maximum of `repeat_after_seconds`, whatever the retention.
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
# Written by a transaction that read the rule just before its deletion. A new rule of that name would inherit the row
# and not report its subject. Closed groups are history and stay.
_NO_RULE = "NOT EXISTS (SELECT 1 FROM notification_rules AS r WHERE r.name = x.rule)"
_KEYS = {
    "parts": ("rule", "part_id"),
    "conditions": ("event", "rule", "subject"),
    "subjects": ("rule", "event", "subject"),
    "groups": ("group_id",),
}


def _page(table: str) -> str:
    key = ", ".join(_KEYS[table])
    condition = f"{_NO_RULE} AND closed_at IS NULL" if table == "groups" else _NO_RULE
    return f"SELECT {key} FROM notification_{table} AS x WHERE {condition} ORDER BY {key} LIMIT :limit"  # noqa: S608 - constants


ORPHANED = {
    table: statement(f"notifications.astray_{table}", f"SELECT count(*) AS n FROM ({_page(table)}) AS found")  # noqa: S608
    for table in _KEYS
}
PRUNE_ORPHANED = {
    table: statement(
        f"notifications.prune_astray_{table}",
        f"""
        WITH page AS MATERIALIZED ({_page(table)})
        DELETE FROM notification_{table} AS x USING page WHERE {" AND ".join(f"x.{each} = page.{each}" for each in key)}
        RETURNING x.{key[0]}
        """,  # noqa: S608 - constants of this module
    )
    for table, key in _KEYS.items()
}


def prune_groups(database: Database, *, retention_ms: int, limit: int) -> int:
    """Delete up to `limit` groups that were sent before the retention, oldest first; return their number."""
    return len(database.fetch(GROUPS, {"retention_ms": max(retention_ms, LEAST_MS), "limit": limit}))


def prune_subjects(database: Database, *, limit: int) -> int:
    """Delete up to `limit` subjects that no rule's `repeat_after_seconds` can still suppress; return their number."""
    return len(database.fetch(SUBJECTS, {"retention_ms": LEAST_MS, "limit": limit}))


def orphaned(database: Database, *, limit: int) -> int:
    """Count the rows of deleted rules (event batches, alerts, subjects, open groups), up to `limit` per table."""
    return sum(database.fetch(each, {"limit": limit})[0].n for each in ORPHANED.values())


def prune_orphaned(database: Database, *, limit: int) -> list[int]:
    """Delete the rows of deleted rules, up to `limit` per table; return the number per table."""
    return [len(database.fetch(each, {"limit": limit})) for each in PRUNE_ORPHANED.values()]
