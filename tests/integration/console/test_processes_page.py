"""The page of processes: workers and their drain."""

import pytest
from flask import Flask
from sqlalchemy import text

from app.features.control import shared_figures
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from tests import rows
from tests.integration.console.visitor import Visitor

PATH = "/console/processes"
DRAIN = "/console/do/post/workers/wrk_1/drain"
COMMANDS = text("SELECT asked_by FROM worker_commands")


@pytest.fixture
def worker(database: Database) -> str:
    worker_lease.register(database, worker_id="wrk_1", host="h<i>", pid=1, queues=["http"], capacity=9, lease_ms=60_000)
    return "wrk_1"


def test_worker_is_shown_with_its_state(app: Flask, database: Database, worker: str) -> None:
    page = Visitor(app, Scope.READ).get(PATH)
    assert all(part in page for part in (worker, "alive", "0 / 9", "h&lt;i&gt;"))
    assert "No worker is in this state" in Visitor(app, Scope.READ).get(f"{PATH}?state=LOST")


def test_due_executions_of_a_queue_are_a_link_to_them(app: Flask, database: Database) -> None:
    rows.add_endpoint(database)
    rows.add_executions(database, 2)
    app.extensions.pop(shared_figures.EXTENSION, None)
    visitor = Visitor(app, Scope.READ)
    assert 'href="/console/executions?queue=http&amp;status=QUEUED,RETRYING"' in visitor.get(PATH)
    assert visitor.get("/console/executions?queue=http&status=QUEUED,RETRYING").count('<tr id="exec_') == 2


def test_page_without_workers_names_the_command_that_starts_a_worker(app: Flask, database: Database) -> None:
    assert "dramatiq actors" in Visitor(app, Scope.READ).get(PATH)


def test_unknown_state_is_refused_in_its_region(app: Flask, database: Database) -> None:
    assert "Must be one of ALIVE" in Visitor(app, Scope.READ).get(f"{PATH}?state=X")


def test_drain_is_asked_for_once(app: Flask, database: Database, worker: str) -> None:
    visitor = Visitor(app, Scope.ADMIN)
    form = visitor.form(PATH, DRAIN)
    for _ in range(2):
        answer = visitor.send(DRAIN, form)
        assert (answer.status_code, answer.headers["Location"]) == (303, PATH)
        assert f"Asked worker {worker} to drain" in visitor.get(PATH)
    assert f"Asked worker {worker}" not in visitor.get(PATH), "a notice is shown once"
    assert [row.asked_by for row in database.fetch(COMMANDS)] == ["visitor"]


def test_reader_gets_no_button_and_may_not_drain(app: Flask, database: Database, worker: str) -> None:
    reader = Visitor(app, Scope.READ)
    assert not reader.has_form(PATH, DRAIN)
    form = Visitor(app, Scope.ADMIN).form(PATH, DRAIN)
    form["csrf"] = reader.form(PATH, "/console/sign-out")["csrf"]
    assert reader.send(DRAIN, form).status_code == 403
    assert database.fetch(COMMANDS) == []


def test_drain_of_an_unknown_worker_is_not_found(app: Flask, database: Database, worker: str) -> None:
    visitor = Visitor(app, Scope.ADMIN)
    answer = visitor.send("/console/do/post/workers/wrk_2/drain", visitor.form(PATH, DRAIN))
    assert answer.status_code == 404
