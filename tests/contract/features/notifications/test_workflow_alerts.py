"""Alerts of workflows: a failure is reported once, and lateness before the deadline."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import text

from app.features.notifications import store as notifications_store
from app.features.notifications.rule_preview import Preview
from app.features.notifications.watching import Detector
from app.kernel.db import Database
from schema.states import WorkflowStatus
from tests.contract.features.notifications.notification_rows import add_rule, messages, send_due
from tests.racing import at_once

ADD = """
INSERT INTO workflows (workflow_id, name, labels, input, nodes, open_nodes, status, reason, created_at, ended_at,
                       deadline_at)
VALUES (:id, :id, CAST('{"team": "pay"}' AS JSONB), CAST('{}' AS JSONB), 1, 1, :status, :reason,
        now() + CAST(:created AS INTERVAL), now() + CAST(:ended AS INTERVAL), now() + CAST(:deadline AS INTERVAL))
RETURNING workflow_id
"""
OPEN = {"status": "RUNNING", "reason": None, "created": "-1 hour", "ended": None, "deadline": None}


def add(database: Database, workflow_id: str, **fields: str) -> None:
    given: Mapping[str, Any] = {"id": workflow_id} | OPEN | fields
    database.fetch(text(ADD), given)


def fail(database: Database, workflow_id: str, *, ended: str = "-1 minute", **fields: str) -> None:
    add(database, workflow_id, ended=ended, **{"status": "FAILED", "reason": "NODE_FAILED"} | fields)


def reported(database: Database, rule: str = "r") -> dict[str, list[str]]:
    """Poll, and send the due messages of a rule; returns the subjects of each event."""
    before = len(messages(database))
    Detector(database).poll()
    send_due(database, rule)
    return {
        each["event"]: sorted(subject["name"] for subject in each["subjects"]) for each in messages(database)[before:]
    }


def test_failed_workflow_is_reported_once(database: Database) -> None:
    add_rule(database, endpoint=None, label="team=pay", events=["workflow.failed"])
    add_rule(database, "other", endpoint=None, label="team=it", events=["workflow.failed"])
    fail(database, "late", reason="DEADLINE")
    fail(database, "failed")
    fail(database, "old", ended="-61 minutes")
    add(database, "cancelled", status="CANCELLED", reason="CANCELLED", ended="-1 minute")
    add(database, "succeeded", status=WorkflowStatus.SUCCEEDED.value, ended="-1 minute")
    add(database, "stopping", status="STOPPING", reason="NODE_FAILED")
    at_once(*(Detector(database).poll for _ in range(3)))
    assert reported(database) == {"workflow.failed": ["failed", "late"]}
    assert messages(database)[0]["examples"] == ["failed", "late"]
    assert reported(database) == {}
    assert reported(database, "other") == {}


def test_workflow_that_failed_again_is_reported_again(database: Database) -> None:
    add_rule(database, endpoint=None, all=True, events=["workflow.failed"])
    fail(database, "failed")
    assert reported(database) == {"workflow.failed": ["failed"]}
    change = text("UPDATE workflows SET status = :status, reason = :reason, ended_at = CAST(:ended AS TIMESTAMPTZ)")
    database.fetch(change, {"status": "RUNNING", "reason": None, "ended": None})
    assert reported(database) == {}
    database.fetch(text("UPDATE workflows SET status = 'FAILED', reason = 'NODE_FAILED', ended_at = now()"))
    assert reported(database) == {"workflow.failed": ["failed"]}


def test_workflow_is_late_shortly_before_its_deadline(database: Database) -> None:
    add_rule(database, endpoint=None, all=True, events=["workflow.late"], late_seconds=60)
    add_rule(database, "early", endpoint=None, all=True, events=["workflow.late"], late_seconds=600)
    add(database, "near", deadline="50 seconds")
    add(database, "far", deadline="5 minutes")
    add(database, "short", created="-10 seconds", deadline="50 seconds")
    add(database, "without")
    add(database, "through", status="SUCCEEDED", ended="-1 second", deadline="10 seconds")
    assert reported(database) == {"workflow.late": ["near"]}
    assert reported(database, "early") == {"workflow.late": ["far", "near"]}
    database.fetch(text("UPDATE workflows SET deadline_at = deadline_at + INTERVAL '1 hour'"))
    assert reported(database) == {}
    assert database.fetch(text("SELECT 1 FROM notification_conditions")) == []


def test_preview_has_failed_workflows(database: Database) -> None:
    add_rule(database, endpoint=None, all=True, events=["workflow.failed"])
    fail(database, "failed", ended="-5 hours", created="-6 hours")
    preview = Preview(database, notifications_store.get(database, "r"))
    assert [group.group.counts for group in preview.simulation.groups] == [{"workflow.failed": 1}]
