"""The overview: work for a person, figures, endpoints by trouble, first steps."""

from datetime import timedelta

import pytest
from flask import Flask
from sqlalchemy import text

from app.console.pages import overview_page
from app.features.control import shared_figures
from app.features.control.fresh_reading import FreshReading
from app.features.rollups.rollup_slots import advance
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from tests import rows
from tests.endings import Ending, begin_rollups, put_endings
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor
from tests.integration.statements import Statements


@pytest.fixture(autouse=True)
def _always_anew(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    app.extensions.pop(shared_figures.EXTENSION, None)
    monkeypatch.setattr(shared_figures, "FreshReading", lambda read: FreshReading(read, 0))


@pytest.fixture
def reader(app: Flask, database: Database) -> Visitor:
    return Visitor(app, Scope.READ)


def start_worker(database: Database) -> None:
    worker_lease.register(database, worker_id="w", host="h", pid=1, queues=["http"], capacity=9, lease_ms=60_000)


def test_first_steps_have_a_form_for_keys_that_may(app: Flask, reader: Visitor) -> None:
    forms = ('href="/console/new-endpoint">in a form', 'href="/console/jobs/new">in a form')
    assert [each for each in forms if each not in Visitor(app, Scope.ADMIN).get("/console")] == []
    assert "in a form" not in reader.get("/console")


def test_first_visit_shows_steps_that_tick_themselves(reader: Visitor, database: Database) -> None:
    page = reader.get("/console")
    assert "Three steps to the first delivery" in page
    assert "No worker is alive" in page
    assert page.count('class="done"') == 0
    start_worker(database)
    rows.add_endpoint(database, "hello")
    assert reader.get("/console").count('class="done"') == 2
    rows.add_executions(database, endpoint="hello")
    assert "Three steps" not in reader.get("/console")


def test_service_without_trouble_says_so(reader: Visitor, database: Database) -> None:
    start_worker(database)
    page = reader.get("/console")
    assert "Nothing: all queues are served" in page
    assert "Nothing was counted in this time" in page


def test_each_condition_is_named_urgent_ones_first(reader: Visitor, database: Database) -> None:
    start_worker(database)
    rows.add_endpoint(database, "paused")
    database.fetch(text("UPDATE endpoints SET paused_at = now() WHERE name = 'paused'"))
    rows.add_endpoint(database, "lettered")
    (letter,) = rows.add_executions(database, endpoint="lettered")
    rows.add_letter(database, letter)
    rows.add_breaker(database, "https:pay.example:443", "open", open_for=timedelta(minutes=1))
    rows.add_executions(database, 2, endpoint="lettered", due_in=timedelta(seconds=-5))
    database.fetch(text("UPDATE executions SET queue = 'bulk' WHERE completed_at IS NULL"))
    page = reader.get("/console")
    places = [page.index(each) for each in ("Queue bulk:", "https:pay.example:443", "1 dead letter", "Endpoint paused")]
    assert places == sorted(places)
    assert "all of lettered" in page


def test_pause_ends_from_the_overview(app: Flask, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_figures, "FreshReading", FreshReading)
    rows.add_endpoint(database, "paused")
    database.fetch(text("UPDATE endpoints SET paused_at = now() WHERE name = 'paused'"))
    resume = "/console/do/post/endpoints/paused/resume"
    assert not Visitor(app, Scope.READ).has_form("/console", resume)
    assert "is paused, since" in Visitor(app, Scope.READ).get("/console")
    assert "is paused, since" not in Visitor(app, Scope.ADMIN).act("/console", resume)


def test_pauses_name_their_authors_wherever_they_are_shown(api: Api, reader: Visitor, database: Database) -> None:
    rows.add_endpoint(database, "target")
    for place in ("endpoints/target", "queues/http"):
        if place.startswith("queues"):
            rows.add_executions(database, 1, endpoint="target")
        assert api.post(f"/{place}/pause").status_code == 200, place
    overview = reader.get("/console")
    assert overview.count("is paused by test, since") == 2
    assert "Paused by test since" in reader.get("/console/endpoints/target")
    assert "by test, since" in reader.get("/console/endpoints")
    assert "by test, since" in reader.get("/console/processes")


def test_figures_and_endpoints_of_the_window_are_shown(reader: Visitor, database: Database) -> None:
    for name in ("calm", "failing<b>"):
        rows.add_endpoint(database, name)
    at = begin_rollups(database, 3) + timedelta(minutes=1)
    endings = [Ending("calm", at, "SUCCESS", late_ms=2, took_ms=20) for _ in range(9)]
    put_endings(database, [*endings, Ending("failing<b>", at, "FAILED", "HTTP_422", late_ms=1, took_ms=1)])
    list(advance(database, 200))
    page = reader.get("/console?window=1h")
    assert page.index("failing&lt;b&gt;") < page.index('id="endpoint-calm"')
    for words in ("10.0 %", "1 of 10", "10 in all", "≤ 5 ms", 'id="plot-deliveries"', 'id="plot-lateness"'):
        assert words in page, words
    assert 'aria-current="true">1h' in page


def test_unknown_window_is_refused(reader: Visitor) -> None:
    assert "Must be one of 5m, 1h" in reader.get("/console?window=1y", 400)


def test_overview_costs_few_statements_beside_the_shared_figures(
    app: Flask, reader: Visitor, statements: Statements, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures are read once in a few seconds for all viewers of a process."""
    app.extensions.pop(shared_figures.EXTENSION, None)
    monkeypatch.setattr(shared_figures, "FreshReading", FreshReading)
    reader.get("/console")
    statements.clear()
    reader.get("/console")
    assert len(statements.texts) <= 12, statements.texts
    app.extensions.pop(shared_figures.EXTENSION)


def test_each_further_viewer_of_the_overview_reads_the_open_breakers_alone(
    app: Flask, database: Database, statements: Statements, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.add_endpoint(database)
    rows.add_letters(database, 1)
    monkeypatch.setattr(shared_figures, "FreshReading", lambda read: FreshReading(read, 3600))
    regions = [f"/console?region={name}" for name in overview_page.page.regions]
    viewers = [Visitor(app, Scope.READ) for _ in range(5)]
    for viewer in viewers:
        viewer.get("/console")
    statements.clear()
    for viewer in viewers:
        for region in regions:
            viewer.get(region)
    assert [text for text in statements.texts if "breakers" not in text] == []
    assert len(statements.texts) <= len(viewers)
