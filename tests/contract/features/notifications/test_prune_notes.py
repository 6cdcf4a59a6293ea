"""Pruning of notifications: rows of deleted rules are deleted, except sent groups."""

from sqlalchemy import text

from app.kernel.db import Database
from tests.contract.features.notifications.notification_rows import add_rule
from tests.contract.scheduler.conftest import chores


def test_rows_of_deleted_rules_are_pruned_and_sent_groups_stay(database: Database) -> None:
    """A new rule of the same name would take over the rows of the deleted rule."""
    add_rule(database, "kept")
    for rule in ("kept", "gone"):
        for put in (
            "parts (rule, part_id, tallies) VALUES (:rule, 'p', '[]')",
            "conditions (event, rule, subject) VALUES ('queue.late', :rule, 'q')",
            "subjects (rule, event, subject, group_id) VALUES (:rule, 'queue.late', 'q', :rule)",
            "groups (group_id, rule, told) VALUES (:rule, :rule, '{}')",
            "groups (group_id, rule, told, closed_at, messages) VALUES (:rule || ' told', :rule, '{}', now(), '[]')",
        ):
            database.fetch(text(f"INSERT INTO notification_{put}"), {"rule": rule})
    assert chores(database).repair()["notes"] == 4
    left = {
        kind: [row.rule for row in database.fetch(text(f"SELECT rule FROM notification_{kind} ORDER BY rule"))]
        for kind in ("parts", "conditions", "subjects", "groups")
    }
    assert left.pop("groups") == ["gone", "kept", "kept"]
    assert list(left.values()) == [["kept"]] * 3
