"""Pages of endpoints and of charts, and the queues and breakers of the page of processes."""

from datetime import timedelta

import pytest
from flask import Flask
from sqlalchemy import text

from app.features.control import shared_figures
from app.features.rollups.rollup_slots import advance
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests import rows
from tests.endings import Ending, begin_rollups, put_endings
from tests.integration.client import Api
from tests.integration.console.visitor import Markup, Visitor
from tests.integration.registered import register

LIST, ONE, PROCESSES, CHARTS = (
    f"/console/{path}" for path in ("endpoints", "endpoints/send-mail", "processes", "history")
)
FLOW = "/console/do/patch/endpoints/send-mail"


@pytest.fixture(autouse=True)
def _fresh_figures(app: Flask) -> None:
    app.extensions.pop(shared_figures.EXTENSION, None)


@pytest.fixture
def endpoint(api: Api, database: Database) -> str:
    """An endpoint of two versions."""
    definition = {"name": "send-mail", "type": "HTTP", "spec": {"url": "https://x.example/", "timeout_ms": 5000}}
    assert api.post("/endpoints", definition).status_code == 201
    definition["spec"] = {"url": "https://x.example/", "timeout_ms": 9000}
    assert api.put("/endpoints/send-mail", definition).status_code == 200
    return "send-mail"


@pytest.fixture
def deliveries(database: Database, endpoint: str) -> None:
    at = begin_rollups(database, 3) + timedelta(minutes=1)
    late = [Ending(endpoint, at, "SUCCESS", late_ms=2, took_ms=20) for _ in range(9)]
    failed = Ending(endpoint, at, "FAILED", "<TIMEOUT>", is_uncertain=True, late_ms=9_000, took_ms=20)
    put_endings(database, [*late, failed])
    list(advance(database, 200))


@pytest.mark.usefixtures("deliveries")
def test_endpoint_in_trouble_is_listed_with_its_figures(app: Flask, database: Database) -> None:
    rows.add_endpoint(database, "quiet")
    page = Visitor(app, Scope.READ).get(LIST)
    parts = ("failing", "uncertain", "late", "≤ 10 s", "10.0 %", "Others, without deliveries", "quiet")
    assert [part for part in parts if part not in page] == []
    assert "Must be one of" in Visitor(app, Scope.READ).get(f"{LIST}?sort=x")


def test_empty_list_says_how_to_make_an_endpoint(app: Flask, database: Database) -> None:
    assert "There is no endpoint yet" in Visitor(app, Scope.READ).get(LIST)


@pytest.mark.usefixtures("deliveries")
def test_endpoint_shows_deliveries_versions_and_their_difference(app: Flask, database: Database) -> None:
    page = Visitor(app, Scope.READ).get(ONE)
    parts = (
        "Deliveries a second",
        "&lt;TIMEOUT&gt;",
        "spec.timeout_ms",
        "<del>",
        "5000",
        "9000",
        "no limits",
        "Used by",
    )
    assert [part for part in parts if part not in page] == []
    assert "Due and running" not in page, "a figure of the fleet"
    assert "These versions are equal" in Visitor(app, Scope.READ).get(f"{ONE}?old=1&new=1")


def test_unknown_endpoint_is_not_found(app: Flask, database: Database) -> None:
    Visitor(app, Scope.READ).get("/console/endpoints/nobody", 404)


def test_reader_sees_no_action_and_may_do_none(app: Flask, endpoint: str) -> None:
    reader = Visitor(app, Scope.READ)
    pause = "/console/do/post/endpoints/send-mail/pause"
    assert not reader.has_form(ONE, pause)
    form = Visitor(app, Scope.ADMIN).form(ONE, pause)
    form["csrf"] = reader.form(ONE, "/console/sign-out")["csrf"]
    assert reader.send(pause, form).status_code == 403
    reader.get(f"{ONE}/flow", 403)


def test_endpoint_is_paused_and_resumed(app: Flask, api: Api, database: Database, endpoint: str) -> None:
    visitor = Visitor(app, Scope.ADMIN)
    rows.add_executions(database, 2, endpoint="send-mail")
    paused = visitor.act(ONE, "/console/do/post/endpoints/send-mail/pause")
    assert (
        "its executions wait. <b>The pause reaches 2 waiting executions"
        in paused.partition("Paused by visitor since")[2]
    )
    assert api.get("/endpoints/send-mail").json["paused_at"] is not None
    assert "Resumed send-mail" in visitor.act(ONE, "/console/do/post/endpoints/send-mail/resume")
    assert api.get("/endpoints/send-mail").json["paused_at"] is None


def test_limits_are_changed_and_faults_keep_the_form(app: Flask, api: Api, endpoint: str) -> None:
    visitor = Visitor(app, Scope.ADMIN)
    form = visitor.form(f"{ONE}/flow", FLOW)
    fields = {"queue": "bulk", "priority": "200", "breaker": "", "limits": '{"max_in_flight": 20}'}
    for limits, message in (("{", "Must be JSON"), ('{"max_in_flight": 0}', "limits")):
        refused = visitor.send(FLOW, {**form, **fields, "limits": limits})
        assert refused.status_code == 422
        assert message in refused.get_data(as_text=True)
        assert "bulk" in refused.get_data(as_text=True), "what was typed stays"
    assert api.post("/endpoints/send-mail/pause", {}).status_code == 200
    outdated = visitor.send(FLOW, {**form, **fields, "limits": "{", "once": "third"}).get_data(as_text=True)
    (again,) = (each["fields"] for each in Markup(outdated).forms if each["action"] == FLOW)
    assert again["etag"] == form["etag"]
    assert "0 / 20" in visitor.act(f"{ONE}/flow", FLOW, **fields)
    found = api.get("/endpoints/send-mail").json
    assert (found["limits"], found["queue"], found["priority"]) == ({"max_in_flight": 20}, "bulk", 200)
    assert visitor.send(FLOW, {**form, **fields, "once": "another"}).status_code == 412, "somebody was faster"


@pytest.mark.usefixtures("deliveries")
def test_charts_have_their_values_in_tables(app: Flask, database: Database) -> None:
    page = Visitor(app, Scope.READ).get(f"{CHARTS}?last=5m")
    parts = ('data-chart="{', "On time", "90.0 %", "1 attempt ≤ 10 s", "&lt;TIMEOUT&gt;", "≤ 5 ms")
    assert [part for part in parts if part not in page] == []


def test_charts_of_a_time_that_nobody_counted_name_the_command(app: Flask, database: Database) -> None:
    assert "stats rebuild" in Visitor(app, Scope.READ).get(CHARTS)


def test_queue_is_paused_and_resumed(app: Flask, database: Database) -> None:
    rows.add_endpoint(database)
    rows.add_executions(database, 2, due_in=timedelta(seconds=-5))
    visitor = Visitor(app, Scope.ADMIN)
    assert "no live worker claims from it" in visitor.get(PROCESSES)
    paused = visitor.act(PROCESSES, "/console/do/post/queues/http/pause")
    assert "Paused queue http" in paused
    assert "no live worker" not in paused
    assert "Resumed queue http" in visitor.act(PROCESSES, "/console/do/post/queues/http/resume")


def test_breaker_is_closed(app: Flask, database: Database) -> None:
    target = "https:api.example.com:443"
    rows.add_breaker(database, target, "open", open_for=timedelta(minutes=1))
    visitor = Visitor(app, Scope.ADMIN)
    action = "/console/do/post/breakers/https%3Aapi.example.com%3A443/close"
    assert f"Closed the breaker of {target}" in visitor.act(PROCESSES, action)
    assert [row.state for row in database.fetch(text("SELECT state FROM breakers"))] == ["closed"]


def test_processes_show_the_missing_scheduler(app: Flask, database: Database) -> None:
    assert "python -m app.scheduler" in Visitor(app, Scope.READ).get(PROCESSES)


def test_reach_is_shown_before_a_pause_and_a_change_of_limits(app: Flask, database: Database, endpoint: str) -> None:
    visitor = Visitor(app, Scope.ADMIN)
    assert "Nothing uses the endpoint" in visitor.get(f"{ONE}/flow")
    rows.add_executions(database, 3, endpoint=endpoint)
    assert "Saving reaches 3 waiting executions." in visitor.get(f"{ONE}/flow")
    assert "The pause reaches 3 waiting executions." in visitor.get(ONE)


def test_unreadable_uses_leave_the_reach_unknown_and_the_rest_of_the_page(
    app: Flask, database: Database, endpoint: str
) -> None:
    visitor = Visitor(app, Scope.ADMIN)
    database.fetch(text("ALTER TABLE notification_rules RENAME TO away"))
    page = visitor.get(ONE)
    assert "The reach of the pause is unknown" in page
    assert page.count("This part cannot be shown") == 1, "the uses"
    flow = visitor.get(f"{ONE}/flow")
    assert "The reach of the change is unknown" in flow
    assert "Nothing uses the endpoint" not in flow


def test_misspelt_endpoint_is_suggested_on_pages_and_in_forms(app: Flask, api: Api, database: Database) -> None:
    register(api)
    admin = Visitor(app, Scope.ADMIN)
    words = "There is no endpoint named &#39;targt&#39;. Did you mean &#39;target&#39;?"
    assert words in admin.get("/console/endpoints/targt", 404)
    assert words in admin.get("/console/jobs/new?endpoint=targt")
    for form, action, typed in (
        ("/console/jobs/new?endpoint=target", "post/jobs", {"callbacks": "on_failure=targt", "input": "{}"}),
        ("/console/endpoints/target/edit", "put/endpoints/target", {"callbacks/on_failure": "targt"}),
    ):
        answer = admin.send(f"/console/do/{action}", admin.form(form, f"/console/do/{action}") | typed)
        assert (answer.status_code, words in answer.get_data(as_text=True)) == (422, True), form
