"""Time zone of the viewer: pages show instants in it, and keep UTC in the title and for programs."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from flask import Flask
from sqlalchemy import text

from app.console.http.viewer_zone import COOKIE
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.integration.console.visitor import Visitor

PATH = "/console/time-zone"
CREATED = datetime(2026, 1, 2, 23, 30, tzinfo=UTC)


@pytest.fixture
def visitor(app: Flask, database: Database) -> Visitor:
    visitor = Visitor(app, Scope.ADMIN)
    database.fetch(text("UPDATE api_keys SET created_at = :at"), {"at": CREATED})
    return visitor


def choose(visitor: Visitor, zone: str, back: str = "/console/keys") -> str:
    fields = visitor.form(f"{PATH}?back={back}", PATH) | {"zone": zone}
    answer = visitor.send(PATH, fields)
    assert answer.status_code == 303, answer.get_data(as_text=True)
    return answer.headers["Location"]


def test_instants_are_in_utc_until_a_zone_is_chosen(visitor: Visitor) -> None:
    assert f'<time datetime="{CREATED.isoformat()}" title="2026-01-02 23:30:00.000 UTC">2 Jan' in visitor.get(
        "/console/keys"
    )
    assert choose(visitor, "Asia/Tokyo") == "/console/keys"
    shown = visitor.get("/console/keys")
    assert f'<time datetime="{CREATED.isoformat()}" title="2026-01-02 23:30:00.000 UTC">3 Jan' in shown
    assert "08:30" in shown
    assert "Times are in Asia/Tokyo" in shown
    choose(visitor, "UTC")
    assert "Times are in UTC" in visitor.get("/console/keys")


def test_day_of_the_schedules_is_that_of_the_viewer(visitor: Visitor) -> None:
    choose(visitor, "Pacific/Kiritimati")
    today = datetime.now(ZoneInfo("Pacific/Kiritimati")).date()
    shown = visitor.get("/console/schedules")
    assert 'value="Pacific/Kiritimati"' in shown
    assert f'value="{today}"' in shown
    assert 'value="UTC"' in visitor.get("/console/schedules?zone=UTC")


def test_unknown_zone_is_refused_beside_its_field(visitor: Visitor) -> None:
    fields = visitor.form(PATH, PATH) | {"zone": "berlin"}
    answer = visitor.send(PATH, fields)
    assert answer.status_code == 422
    assert "Did you mean &#39;Europe/Berlin&#39;?" in answer.get_data(as_text=True)
    assert "Pages show instants in UTC." in answer.get_data(as_text=True)
    assert visitor.browser.get_cookie(COOKIE, path="/console") is None


@pytest.mark.parametrize("zone", ["Nowhere/Land", "../../etc/passwd", "Factory", "\x00"])
def test_cookie_with_another_text_counts_as_none(visitor: Visitor, zone: str) -> None:
    visitor.browser.set_cookie(COOKIE, zone, path="/console")
    assert "Times are in UTC" in visitor.get("/console")


def test_form_leads_to_pages_of_the_console_only(visitor: Visitor) -> None:
    assert choose(visitor, "UTC", "//evil.example") == "/console"


def test_link_leads_back_to_a_long_address(visitor: Visitor) -> None:
    path = f"/console/executions?name={'n' * 190}&endpoint=e"
    page = visitor.get(path)
    (link,) = re.findall(r'class="zone" href="([^"]+)"', page)
    there = visitor.get(link)
    assert f'name="back" value="{path.replace("&", "&amp;")}"' in there
    assert f'class="zone" href="{link}"' in there, "the page itself does not become the way back"


def test_form_needs_the_token_of_the_session(visitor: Visitor) -> None:
    assert visitor.send(PATH, {"zone": "UTC"}).status_code == 403
