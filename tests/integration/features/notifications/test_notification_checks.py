"""`flask doctor`: late messages, and rows of deleted notification rules."""

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from tests.integration.client import Api
from tests.integration.command_line import Cli, doctor_findings
from tests.integration.registered import register

pytestmark = pytest.mark.reflection


def test_late_messages_and_rows_of_deleted_rules_are_reported(api: Api, cli: Cli, database: Database) -> None:
    register(api)
    rule = {"name": "r", "events": ["execution.failed"], "channels": ["target"], "all": True}
    assert api.post("/notification-rules", rule).status_code == 201
    for name in ("r", "gone"):
        for insertion in (
            "parts (rule, part_id, tallies, created_at) VALUES (:rule, :rule, '[]', now() - INTERVAL '1 hour')",
            "groups (group_id, rule, told, opened_at) VALUES (:rule, :rule, '{}', now() - INTERVAL '1 hour')",
            "groups (group_id, rule, told, closed_at, messages) VALUES (:rule || '2', :rule, '{}', now(), '[]')",
            "subjects (rule, event, subject, group_id) VALUES (:rule, 'queue.late', 'q', :rule)",
            "conditions (event, rule, subject) VALUES ('queue.late', :rule, 'q')",
        ):
            database.fetch(text(f"INSERT INTO notification_{insertion}"), {"rule": name})
    found = doctor_findings(cli)
    assert [(each["check"], each["fixable"]) for each in found.values()] == [
        ("notifications", False),
        ("notifications", True),
    ]
    late, orphaned = found
    assert late.endswith("late by more than 60 s: r")
    assert orphaned == "4 rows belong to deleted notification rules"
    fixed = doctor_findings(cli, "--fix", "--yes")
    assert [each["repaired"] for each in fixed.values()] == [None, 4]
    assert list(doctor_findings(cli)) == [late]
    closed = database.fetch(text("SELECT group_id FROM notification_groups ORDER BY group_id"))
    assert [row.group_id for row in closed] == ["gone2", "r", "r2"]
    database.fetch(text("UPDATE notification_groups SET waits_until = now() + INTERVAL '1 hour' WHERE group_id = 'r'"))
    database.fetch(text("DELETE FROM notification_parts"))
    assert doctor_findings(cli, expect=0) == {}
