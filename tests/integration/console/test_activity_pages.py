"""Pages of activity: events, the audit log, one instant, API keys and the search."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from flask import Flask
from sqlalchemy import text

from app.console.pages import activity_page
from app.features.events.store import PAGE
from app.features.rollups.rollup_slots import advance
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests import rows
from tests.cases import each_case
from tests.endings import Ending, begin_rollups, put_endings
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor
from tests.integration.registered import created, one_shot, register


@pytest.fixture
def changes(api: Api, database: Database) -> Api:
    """An endpoint and a job, older than the horizon of the events."""
    register(api)
    created(api, one_shot("k"))
    for table, column in (("audit_log", "occurred_at"), ("jobs", "created_at")):
        database.fetch(text(f"UPDATE {table} SET {column} = now() - INTERVAL '3 minutes'"))
    return api


def test_events_are_shown_in_words(app: Flask, changes: Api) -> None:
    reader = Visitor(app, Scope.READ)
    page = reader.get("/console/activity")
    assert "endpoint created" in page
    assert "/console/endpoints/target" in page
    assert "job created" not in page, "routine is left out"
    assert "job created" in reader.get("/console/activity?all=on")
    assert "job created" in reader.get("/console/activity?kind=job")
    assert "Show all kinds" in reader.get("/console/activity?endpoint=nobody")


def test_newest_events_are_shown_behind_many_others(app: Flask, changes: Api, database: Database) -> None:
    rows.add_executions(database, PAGE + 100)
    database.fetch(text("UPDATE jobs SET created_at = now() - INTERVAL '3 minutes'"))
    database.fetch(text("UPDATE audit_log SET occurred_at = now() - INTERVAL '1 minute'"))
    assert "endpoint created" in Visitor(app, Scope.READ).get("/console/activity")


def add_openings(database: Database, ages: Sequence[float]) -> None:
    """Add an opened breaker for each age in seconds."""
    database.fetch(
        text(
            "INSERT INTO breaker_events (event_id, target, from_state, to_state, reason, occurred_at) "
            "SELECT CAST(n AS TEXT), 't', 'closed', 'open', 'x', now() - age * INTERVAL '1 second' "
            "  FROM unnest(CAST(:ages AS FLOAT[])) WITH ORDINALITY AS u (age, n)"
        ),
        {"ages": [*ages]},
    )


def test_busy_service_shows_its_newest_events(app: Flask, database: Database) -> None:
    """At 1,500 events in a second, two seconds have more events than the page reads."""
    add_openings(database, [number / 1500 for number in range(-15_000, 15_000)])
    page = Visitor(app, Scope.READ).get("/console/activity")
    assert "The latest 100 events, of the last 200 ms." in page
    assert "Nothing in the last" not in page


def test_burst_hides_no_event_behind_a_quiet_time(app: Flask, database: Database) -> None:
    """The quiet time promises few events in several windows, which one statement then reads in vain."""
    add_openings(database, [*range(3, 18), *(30 + number * 0.06 for number in range(2500))])
    assert "The latest 15 events, of the last 20.0 s." in Visitor(app, Scope.READ).get("/console/activity")


def test_burst_ends_no_search_for_earlier_events(app: Flask, database: Database) -> None:
    rows.add_endpoint(database)
    rows.add_executions(database, PAGE + 100)
    database.fetch(text("UPDATE jobs SET created_at = now() - INTERVAL '3 minutes'"))
    add_openings(database, range(400, 4000, 200))
    assert "The latest 18 events, of the last 2 d 7 h." in Visitor(app, Scope.READ).get("/console/activity")


def test_page_that_can_read_no_window_says_so(app: Flask, changes: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity_page, "MAX_PAGES", 0)
    page = Visitor(app, Scope.READ).get("/console/activity")
    assert "More events at once than can be read" in page
    assert "choose a kind" in page


def test_audit_log_is_for_administrators(app: Flask, changes: Api) -> None:
    page = Visitor(app, Scope.ADMIN).get("/console/activity/audit?type=endpoint")
    assert "/console/endpoints/target" in page
    assert "No change matches" in Visitor(app, Scope.ADMIN).get("/console/activity/audit?actor=nobody")
    reader = Visitor(app, Scope.READ)
    reader.get("/console/activity/audit", 403)
    assert "Audit log" not in reader.get("/console/activity")


def test_instant_shows_failures_and_changes_around_it(app: Flask, changes: Api, database: Database) -> None:
    rows.add_letters(database, 4)
    at = rows.database_now(database)
    admin = Visitor(app, Scope.ADMIN)
    page = admin.get(f"/console/at/{at:%Y-%m-%dT%H:%M:%SZ}")
    assert all(part in page for part in ("HTTP_ERROR", ">4</td>", "endpoint created", "What people changed"))
    earlier = admin.get(f"/console/at/{at - timedelta(hours=2):%Y-%m-%dT%H:%M:%SZ}")
    assert "Nothing failed for good" in earlier
    assert "Nothing failed for good" in admin.get("/console/at/now?instant=2026-01-01T00:00")
    assert "What people changed" not in Visitor(app, Scope.READ).get("/console/at/now")


@each_case("instant", ["x", "2026-13-01T00:00:00Z", "1066-10-14T09:00:00Z", "9999-12-31T23:59:59-14:00"])
def test_text_that_is_no_instant_is_not_found(app: Flask, database: Database, instant: str) -> None:
    Visitor(app, Scope.READ).get(f"/console/at/{instant}", 404)


def test_keys_are_for_administrators_and_show_no_value(app: Flask, database: Database) -> None:
    admin = Visitor(app, Scope.ADMIN)
    page = admin.get("/console/keys")
    assert "visitor" in page
    assert admin.key.split("_")[2] not in page
    Visitor(app, Scope.READ).get("/console/keys", 403)


def test_search_links_each_hit(app: Flask, changes: Api) -> None:
    reader = Visitor(app, Scope.READ)
    page = reader.get("/console/search?q=targ")
    assert 'href="/console/endpoints/target"' in page
    assert "Nothing matches" in reader.get("/console/search?q=%3Cnobody%3E")
    assert "An id, key, name" in reader.get("/console/search")


def test_instant_shows_the_figures_of_its_minutes(app: Flask, database: Database) -> None:
    reader = Visitor(app, Scope.READ)
    assert "Nobody counted then" in reader.get("/console/at/now")
    rows.add_endpoint(database)
    at = begin_rollups(database, 4) + timedelta(minutes=1)
    put_endings(database, [Ending("target", at, "SUCCESS", late_ms=2, took_ms=20) for _ in range(90)])
    list(advance(database, 200))
    page = reader.get(f"/console/at/{at:%Y-%m-%dT%H:%M:%SZ}")
    (row,) = (row for row in page.split("<tr") if 'class="here"' in row)
    assert "≤ 5 ms" in row
    assert ">9.0</td>" in row or ">1.5</td>" in row, row
