"""Checks of notifications: late messages, and rows of deleted rules."""

from collections.abc import Iterator

from app.kernel.db.deletion import deletion
from app.kernel.formats import numbered
from app.kernel.sql import statement
from app.scheduler.chore import ChoreContext
from app.scheduler.finding import MAX_COUNTED, Finding, SafetyNet

LATE_SECONDS = 60
MAX_NAMED = 5

LATE_PARTS = statement(
    "doctor.late_parts",
    """
    SELECT rule, count(*) AS n FROM (
      SELECT p.rule FROM notification_parts AS p JOIN notification_rules AS r ON r.name = p.rule
       WHERE p.created_at < now() - CAST(:late AS BIGINT) * INTERVAL '1 second' LIMIT :most) AS late
     GROUP BY rule ORDER BY rule
    """,
)
LATE_GROUPS = statement(
    "doctor.late_groups",
    """
    SELECT g.rule FROM notification_groups AS g JOIN notification_rules AS r ON r.name = g.rule
     WHERE g.closed_at IS NULL
       AND COALESCE(g.waits_until, g.opened_at) < now() - CAST(:late AS BIGINT) * INTERVAL '1 second'
     ORDER BY g.rule LIMIT :most
    """,
)


# Written by a transaction that read the rule just before its deletion. A new rule of that name would inherit the row
# and not report its subject. Closed groups are history and stay.
_KEYS = {
    "parts": ("rule", "part_id"),
    "conditions": ("event", "rule", "subject"),
    "subjects": ("rule", "event", "subject"),
    "groups": ("group_id",),
}
_IS_ORPHANED = {
    table: f"""NOT EXISTS (SELECT 1 FROM notification_rules AS r WHERE r.name = notification_{table}.rule)
               {"AND closed_at IS NULL" if table == "groups" else ""}"""  # noqa: S608 - constants of this module
    for table in _KEYS
}
COUNT_ORPHANED = [
    statement(
        f"notifications.astray_{table}",
        """
        SELECT count(*) AS n
          FROM (SELECT 1 FROM notification_{table} WHERE {is_orphaned} ORDER BY {key} LIMIT :limit) AS found
        """,
        table=table,
        is_orphaned=_IS_ORPHANED[table],
        key=", ".join(key),
    )
    for table, key in _KEYS.items()
]
PRUNE_ORPHANED = [
    deletion(f"notifications.prune_astray_{table}", f"notification_{table}", key, _IS_ORPHANED[table], shown=key[:1])
    for table, key in _KEYS.items()
]


def messages(context: ChoreContext) -> Iterator[Finding]:
    """Find event batches and groups that should have been sent more than LATE_SECONDS ago."""
    params = {"late": LATE_SECONDS, "most": MAX_COUNTED}
    waiting = {row.rule for row in context.database.fetch(LATE_PARTS, params)}
    waiting |= {row.rule for row in context.database.fetch(LATE_GROUPS, params)}
    if waiting:
        named = ", ".join(sorted(waiting)[:MAX_NAMED]) + (" and more" if len(waiting) > MAX_NAMED else "")
        rules = numbered(len(waiting), "notification rule")
        problem = f"messages of {rules} are late by more than {LATE_SECONDS} s: {named}"
        fix = "start a scheduler of this release (`python -m app.scheduler`), or search its log for `notif`"
        yield Finding("notifications", problem, fix)


class OrphanedRuleRows(SafetyNet):
    """Rows of deleted notification rules (event batches, alerts, subjects, open groups), counted per table."""

    check, noun = "notifications", "row"
    problem = "belong to deleted notification rules"
    fix = "deletes them"
    done = "notes"

    def count(self, context: ChoreContext) -> int:
        return sum(context.database.fetch(each, {"limit": MAX_COUNTED})[0].n for each in COUNT_ORPHANED)

    def repair(self, context: ChoreContext) -> int:
        return sum(map(context.delete, PRUNE_ORPHANED))
