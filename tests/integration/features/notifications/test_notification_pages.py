"""Pages of notifications: rules with their messages, and a rule tried on the events of the last day."""

import html
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from urllib.parse import quote

import pytest
from flask import Flask
from sqlalchemy import text

from app.features.control import shared_figures
from app.features.notifications.pages import notification_rule_page
from app.features.rollups import rollup_slots
from app.features.rollups.rollup_slots import advance
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests import rows
from tests.endings import Ending, begin_rollups, put_endings
from tests.integration.client import Api
from tests.integration.console.visitor import Markup, Visitor
from tests.integration.registered import register

PATH, DO = "/console/notifications", "/console/do"
TOLD = """{"subjects": [{"event": "execution.failed", "subject": "target", "count": 3, "examples": [],
  "first_at": "2026-01-01T00:00:00Z", "last_at": "2026-01-01T00:00:00Z"}], "counts": {"execution.failed": 3},
  "first_at": "2026-01-01T00:00:00Z", "last_at": "2026-01-01T00:00:00Z"}"""


@pytest.fixture
def rule(api: Api) -> Api:
    register(api)
    register(api, "chat")
    body = {"name": "fails", "events": ["execution.failed"], "channels": ["chat"], "endpoint": "target"}
    assert api.post("/notification-rules", body).status_code == 201
    return api


def plain(page: str) -> str:
    """Return a page without its tags."""
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def test_rules_are_listed_with_their_latest_message(app: Flask, rule: Api, database: Database) -> None:
    reader = Visitor(app, Scope.READ)
    assert "none yet" in reader.get(PATH)
    add = "INSERT INTO notification_groups (group_id, rule, told, closed_at, messages) VALUES (:id, 'fails', "
    database.fetch(text(f"{add} CAST(:told AS JSONB), now(), CAST('[]' AS JSONB))"), {"id": "grp_1", "told": TOLD})
    assert "3 executions failed: target" in reader.get(PATH)
    assert "3 executions failed: target" in reader.get(f"{PATH}/fails")


@pytest.fixture
def channels(app: Flask, rule: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], str]]:
    """The text of the page of a rule, with figures that are read anew."""
    monkeypatch.setattr(notification_rule_page, "DAY", "1h")  # a day needs the rollups of whole hours
    reader = Visitor(app, Scope.READ)

    def shown() -> str:
        app.extensions.pop(shared_figures.EXTENSION, None)
        return " ".join(plain(reader.get(f"{PATH}/fails").partition("<h2>Rule")[2]).split())

    yield shown
    app.extensions.pop(shared_figures.EXTENSION, None)


@pytest.mark.parametrize(
    ("ended", "most", "words"),
    [
        ({"chat": 3}, 200, "chat 2 messages in 24 hours, 1 failed"),
        ({"target": 3}, 200, "chat no message in 24 hours"),
        ({"target": 3, "chat": 1}, 1, "chat not counted"),
        ({}, 200, "chat not counted"),
    ],
    ids=["some", "none", "with others", "nobody counts"],
)
def test_channel_has_its_messages_of_the_last_day(
    channels: Callable[[], str], database: Database, ended: dict[str, int], most: int, words: str
) -> None:
    """Endpoints beyond the busiest are counted together."""
    if ended:
        at, states = begin_rollups(database, 3) + timedelta(minutes=1), ("SUCCESS", "SUCCESS", "FAILED")
        ends = [(endpoint, state) for endpoint, number in ended.items() for state in states[:number]]
        put_endings(database, [Ending(endpoint, at, state, late_ms=2, took_ms=20) for endpoint, state in ends])
        list(advance(database, most))
    assert words in channels()


def test_rule_is_shown_without_figures(channels: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollup_slots, "MARKS", text("SELECT 1 / 0"))
    assert "No message yet" in channels()


def test_list_without_rules_says_what_a_rule_does(app: Flask, database: Database) -> None:
    assert "No rule yet" in Visitor(app, Scope.READ).get(PATH)


def test_rule_is_tried_before_it_is_saved(app: Flask, rule: Api, database: Database) -> None:
    rows.add_letters(database, 5)
    admin = Visitor(app, Scope.ADMIN)
    edit = f"{PATH}/fails/edit"
    assert "would have sent 1 message of 5 events" in plain(admin.get(edit))
    tried = f"{edit}?sent=1&events=execution.failed&channels=chat&endpoint=other-*"
    assert "would have sent 0 messages of 0 events; the rule as it is: 1" in plain(admin.get(tried))
    assert rule.get("/notification-rules/fails").json["endpoint"] == "target"
    assert "Saved the rule fails." in admin.act(tried, f"{DO}/put/notification-rules/fails")
    assert rule.get("/notification-rules/fails").json["endpoint"] == "other-*"


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("channels=chat&endpoint=*", "Must have a length from 1"),
        ("events=execution.failed&channels=chat&endpoint=*", "matches every endpoint"),
        ("events=execution.failed&channels=chat&all=on&group_seconds=x", "hole number"),
        ("events=execution.failed&channels=chat&all=on&quiet_from=22:00", "time of the day"),
    ],
)
def test_faults_are_shown_and_nothing_can_be_saved(app: Flask, rule: Api, query: str, fault: str) -> None:
    admin, path = Visitor(app, Scope.ADMIN), f"{PATH}/fails/edit?sent=1&{query}"
    page = plain(admin.get(path))
    assert "Correct the marked fields" in page
    assert fault in page, page[-3000:]
    assert not admin.has_form(path, f"{DO}/put/notification-rules/fails")


def test_rule_is_created_and_deleted(app: Flask, rule: Api) -> None:
    admin = Visitor(app, Scope.ADMIN)
    path = f"{PATH}/new?sent=1&name=late&events=queue.late&channels=chat&all=on&late_seconds=60"
    assert "Created the rule late." in admin.act(path, f"{DO}/post/notification-rules")
    assert rule.get("/notification-rules/late").json["late_seconds"] == 60
    assert "Deleted the rule late." in admin.act(f"{PATH}/late", f"{DO}/delete/notification-rules/late")
    assert rule.get("/notification-rules/late").status_code == 404


def test_change_of_an_outdated_rule_is_refused(app: Flask, rule: Api) -> None:
    admin = Visitor(app, Scope.ADMIN)
    replace, delete = (f"{DO}/{method}/notification-rules/fails" for method in ("put", "delete"))
    forms = Markup(admin.get(f"{PATH}/fails/edit")).forms
    tag = next(form["fields"]["etag"] for form in forms if "sent" in form["fields"])
    removal = admin.form(f"{PATH}/fails", delete)
    body = {"name": "fails", "events": ["execution.failed"], "channels": ["chat"], "endpoint": "other-*"}
    assert rule.put("/notification-rules/fails", body).status_code == 200
    tried = f"{PATH}/fails/edit?sent=1&events=execution.failed&channels=chat&all=on&etag={quote(tag)}"
    assert admin.send(replace, admin.form(tried, replace)).status_code == 412
    assert admin.send(delete, removal).status_code == 412
    assert rule.get("/notification-rules/fails").json["endpoint"] == "other-*"


def test_days_of_quiet_hours_are_kept(app: Flask, rule: Api) -> None:
    quiet = {"from": "22:00", "to": "07:00", "timezone": "UTC", "days": ["mon", "sat"]}
    body = {"name": "fails", "events": ["execution.failed"], "channels": ["chat"], "all": True, "quiet_hours": quiet}
    assert rule.put("/notification-rules/fails", body).status_code == 200
    admin, edit = Visitor(app, Scope.ADMIN), f"{PATH}/fails/edit"
    assert 'name="quiet_days" type="text" value="mon, sat"' in admin.get(edit)
    tried = "sent=1&events=execution.failed&channels=chat&all=on&quiet_from=22:00&quiet_to=07:00&quiet_days=mon,+sat"
    admin.act(f"{edit}?{tried}", f"{DO}/put/notification-rules/fails")
    assert rule.get("/notification-rules/fails").json["quiet_hours"] == quiet


def test_test_message_is_sent_through_a_channel(app: Flask, rule: Api) -> None:
    visitor = Visitor(app, Scope.READ, Scope.JOBS_WRITE)
    assert "on its way through chat" in visitor.act(f"{PATH}/fails", f"{DO}/post/endpoints/chat/test")
    assert [job["endpoint"] for job in rule.get("/jobs").json["items"]] == ["chat"]


def test_reader_sees_rules_and_changes_none(app: Flask, rule: Api) -> None:
    reader = Visitor(app, Scope.READ)
    assert not reader.has_form(f"{PATH}/fails", f"{DO}/delete/notification-rules/fails")
    assert not reader.has_form(f"{PATH}/fails", f"{DO}/post/endpoints/chat/test")
    for path in (f"{PATH}/fails/edit", f"{PATH}/new"):
        reader.get(path, 403)
    reader.get(f"{PATH}/nope", 404)
