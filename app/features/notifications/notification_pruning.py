"""Pruning: groups that were told long ago, what they were about, and what is left of rules that are gone."""

from app.kernel.db import Database
from app.kernel.sql import statement

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
# Noted by who had read the rule just before it was deleted, or left by hand: a rule of that name would take it for its
# own, and not tell what seems to be told. Groups that were told are history.
_OF_NO_RULE = "NOT EXISTS (SELECT 1 FROM notification_rules AS r WHERE r.name = x.rule)"
_KEYS = {
    "parts": ("rule", "part_id"),
    "conditions": ("event", "rule", "subject"),
    "subjects": ("rule", "event", "subject"),
    "groups": ("group_id",),
}


def _page(table: str) -> str:
    key = ", ".join(_KEYS[table])
    condition = f"{_OF_NO_RULE} AND closed_at IS NULL" if table == "groups" else _OF_NO_RULE
    return f"SELECT {key} FROM notification_{table} AS x WHERE {condition} ORDER BY {key} LIMIT :limit"  # noqa: S608 - constants


ASTRAY = {
    table: statement(f"notifications.astray_{table}", f"SELECT count(*) AS n FROM ({_page(table)}) AS found")  # noqa: S608
    for table in _KEYS
}
PRUNE_ASTRAY = {
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
    """Delete groups that were told before the retention, the oldest first; returns how many."""
    return len(database.fetch(GROUPS, {"retention_ms": max(retention_ms, LEAST_MS), "limit": limit}))


def prune_subjects(database: Database, *, limit: int) -> int:
    """Delete what no rule needs any more in order not to repeat itself; returns how many subjects."""
    return len(database.fetch(SUBJECTS, {"retention_ms": LEAST_MS, "limit": limit}))


def astray(database: Database, *, limit: int) -> int:
    """Count what was noted for rules that are gone: parts, conditions, subjects, open groups; up to so many of each."""
    return sum(database.fetch(each, {"limit": limit})[0].n for each in ASTRAY.values())


def prune_astray(database: Database, *, limit: int) -> list[int]:
    """Delete what was noted for rules that are gone, up to so many of each kind; returns how many of each."""
    return [len(database.fetch(each, {"limit": limit})) for each in PRUNE_ASTRAY.values()]
