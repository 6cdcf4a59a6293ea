"""Notification rules in the API: stored, changed, deleted and previewed."""

from typing import Any

import pytest

from app.features.notifications.store import MAX_RULES
from app.kernel.db import Database
from tests import rows
from tests.cases import each_case
from tests.contract.features.notifications.notification_rows import fill_rules
from tests.integration.client import Api, pointers, problem
from tests.integration.registered import register

RULE = {"events": ["execution.failed"], "channels": ["target"], "endpoint": "billing-*"}
QUIET = {"from": "22:00", "to": "07:00", "days": ["mon"], "timezone": "Europe/Berlin"}


@pytest.fixture(autouse=True)
def registered(api: Api) -> None:
    register(api)


def test_rule_is_created_changed_and_deleted(api: Api) -> None:
    made = api.post("/notification-rules", {"name": "r", **RULE, "quiet_hours": QUIET, "label": "team=pay"})
    assert made.status_code == 201
    shown = {name: made.json[name] for name in ("name", "events", "channels", "endpoint", "label", "quiet_hours")}
    assert shown == {"name": "r", **RULE, "label": "team=pay", "quiet_hours": QUIET}
    defaults = {name: made.json[name] for name in ("all", "queue", "min_severity", "group_seconds", "max_per_hour")}
    assert defaults == {"all": False, "queue": None, "min_severity": "info", "group_seconds": 60, "max_per_hour": 20}
    assert api.get("/notification-rules/r").json == made.json
    problem(api.post("/notification-rules", {"name": "r", **RULE}), 409, "CONFLICT")
    stale = {"If-Match": '"stale"'}
    problem(api.put("/notification-rules/r", RULE, headers=stale), 412, "PRECONDITION_FAILED")
    changed = api.put("/notification-rules/r", RULE, headers={"If-Match": made.headers["ETag"]})
    assert (changed.status_code, changed.json["quiet_hours"]) == (200, None)
    assert api.get("/notification-rules").json["items"] == [changed.json]
    audited = api.get("/audit", resource_type="notification_rule").json["items"]
    assert [entry["action"] for entry in audited] == ["replace", "create"]
    error = problem(api.delete("/endpoints/target"), 409, "CONFLICT")
    assert "notification rule r" in error["message"]
    assert api.delete("/notification-rules/r").status_code == 204
    problem(api.get("/notification-rules/r"), 404, "NOTIFICATION_RULE_NOT_FOUND")
    assert api.delete("/endpoints/target").status_code == 204


@each_case(
    ("changes", "pointer"),
    [
        ({"events": []}, "/events"),
        ({"events": ["test"]}, "/events/0"),
        ({"events": ["execution.succeeded"]}, "/events/0"),
        ({"channels": []}, "/channels"),
        ({"channels": list("abcdef")}, "/channels"),
        ({"endpoint": "Billing"}, "/endpoint"),
        ({"label": "team=a=b"}, "/label"),
        ({"label": "=x"}, "/label"),
        ({"all": 1}, "/all"),
        ({"group_seconds": 3601}, "/group_seconds"),
        ({"max_per_hour": 0}, "/max_per_hour"),
        ({"quiet_hours": QUIET | {"from": "24:00"}}, "/quiet_hours/from"),
        ({"quiet_hours": QUIET | {"timezone": "Mars/Olympus"}}, "/quiet_hours/timezone"),
        ({"quiet_hours": QUIET | {"days": ["mo"]}}, "/quiet_hours/days/0"),
        ({"min_severity": "WARNING"}, "/min_severity"),
    ],
)
def test_invalid_field_of_a_rule_is_named(api: Api, changes: dict[str, Any], pointer: str) -> None:
    for path, body in (("/notification-rules", {"name": "r"}), ("/notification-rules/preview", {})):
        error = problem(api.post(path, {**body, **RULE, **changes}), 400, "INVALID_REQUEST")
        assert pointers(error) == [pointer]


def test_rule_that_cannot_work_is_refused_with_a_hint(api: Api, database: Database) -> None:
    everything = {"name": "r", "events": ["execution.failed"], "channels": ["target"]}
    for path in ("/notification-rules", "/notification-rules/preview"):
        error = problem(api.post(path, everything), 422, "INVALID_NOTIFICATION_RULE")
        assert '"all": true' in error["message"]
    assert api.post("/notification-rules", {**everything, "all": True}).status_code == 201
    api.post("/payload-specs", {"name": "needs-text", "schema": {"type": "object", "required": ["text"]}})
    register(api, "needs-text", payload_spec="needs-text")
    error = problem(
        api.put("/notification-rules/r", {**RULE, "channels": ["needs-text"]}), 422, "INVALID_NOTIFICATION_RULE"
    )
    assert pointers(error) == ["/channels/0"]
    assert "GET /notifications/schema" in error["message"]
    fill_rules(database, MAX_RULES - 1)
    problem(api.post("/notification-rules", {**RULE, "name": "more"}), 409, "CONFLICT")
    assert api.put("/notification-rules/r", RULE).status_code == 200


def test_preview_shows_the_messages_of_the_last_day(api: Api, database: Database) -> None:
    for _ in range(3):
        rows.add_letter(database)
    rule = {"events": ["execution.failed", "queue.late"], "channels": ["nobody-yet"], "all": True}
    found = api.post("/notification-rules/preview", rule).json
    (message,) = found.pop("messages")
    del found["since"], found["until"]
    assert found == {
        "truncated": False,
        "not_previewed": ["queue.late"],
        "events": 3,
        "repeated": 0,
        "message_count": 1,
    }
    assert (message["count"], message["sent_at"], message["waits_for"]) == (3, None, "window")
    assert message["subjects"] == [{"name": "target", "count": 3}]
    assert message["title"] == "3 executions failed: target"
    assert api.post("/notification-rules", {"name": "r", **rule, "channels": ["target"]}).status_code == 201
    assert api.get("/notification-rules/r/preview").json["events"] == 3
    assert api.get("/notification-rules/r/messages").json["items"] == []
    problem(api.get("/notification-rules/nope/preview"), 404, "NOTIFICATION_RULE_NOT_FOUND")
