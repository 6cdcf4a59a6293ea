"""Reach before a change: counts of things that a pause, an edit, a cancellation or a closed breaker affects."""

from datetime import timedelta

import pytest
from flask import Flask
from sqlalchemy import text

from app.features.control import shared_figures
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.jobs import open_executions
from tests import rows
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor
from tests.integration.registered import created, cron, interval, one_shot, register

TARGET = "https:api.example.com:443"
REPLACED = "Executions of this version that have not begun are cancelled: "


@pytest.fixture
def visitor(app: Flask, database: Database) -> Visitor:
    app.extensions.pop(shared_figures.EXTENSION, None)
    return Visitor(app, Scope.ADMIN)


@pytest.fixture
def schedule(api: Api, database: Database) -> str:
    """A schedule with two executions that have not begun, and an execution that waits for a retry."""
    register(api)
    job_id: str = created(api, cron(cron="0 2 * * *", name="nightly"))["job_id"]
    for _ in range(3):
        assert api.post(f"/jobs/{job_id}/run", {}).status_code == 201
    begun = "UPDATE executions SET status = 'RETRYING', attempt_count = 1 WHERE execution_id = ("
    database.fetch(text(f"{begun} SELECT min(execution_id) FROM executions)"))
    return job_id


def test_pause_of_a_queue_counts_due_executions_and_workers(visitor: Visitor, database: Database) -> None:
    rows.add_endpoint(database)
    rows.add_executions(database, 2, due_in=timedelta(seconds=-5))
    worker_lease.register(database, worker_id="w", host="h", pid=1, queues=["http"], capacity=9, lease_ms=60_000)
    assert "The pause reaches 2 due executions, 1 worker." in visitor.get("/console/processes")


def test_closing_a_breaker_counts_its_endpoints_and_what_waits_for_them(visitor: Visitor, database: Database) -> None:
    rows.add_breaker(database, TARGET, "open", open_for=timedelta(minutes=1))
    for name, waiting in (("charge", 3), ("refund", 2), ("other", 5)):
        rows.add_endpoint(database, name)
        rows.add_executions(database, waiting, endpoint=name)
    led = "INSERT INTO breaker_endpoints (target, endpoint) VALUES (:target, 'charge'), (:target, 'refund')"
    database.fetch(text(led), {"target": TARGET})
    for path in ("/console", "/console/processes", "/console/endpoints/charge"):
        assert "Closing it reaches 2 endpoints, 5 waiting executions." in visitor.get(path), path


def test_way_out_of_an_execution_counts_what_closing_its_breaker_reaches(visitor: Visitor, database: Database) -> None:
    rows.add_breaker(database, TARGET, "open", open_for=timedelta(minutes=1))
    rows.add_endpoint(database, "charge")
    waiting, *_ = rows.add_executions(database, 3, endpoint="charge", due_in=timedelta(seconds=-5))
    worker_lease.register(database, worker_id="w", host="h", pid=1, queues=["http"], capacity=9, lease_ms=60_000)
    led = "INSERT INTO breaker_endpoints (target, endpoint) SELECT :target, 'charge'"
    database.fetch(text(led), {"target": TARGET})
    page = visitor.get(f"/console/executions/{waiting}")
    assert "Close the breaker now…" in page
    assert "Closing it reaches 1 endpoint, 3 waiting executions." in page
    more = "INSERT INTO breaker_endpoints (target, endpoint) SELECT :target, 'e' || n FROM generate_series(1, 101) AS n"
    database.fetch(text(more), {"target": TARGET})
    page = visitor.get(f"/console/executions/{waiting}")
    assert "Closing it reaches 100 or more endpoints, 3 or more waiting executions (counted for 16" in page


def test_endpoints_beyond_the_bound_leave_the_reach_of_a_breaker_open(visitor: Visitor, database: Database) -> None:
    rows.add_breaker(database, TARGET, "open", open_for=timedelta(minutes=1))
    led = "INSERT INTO breaker_endpoints (target, endpoint) VALUES (:target, :name)"
    for number in range(17):
        database.fetch(text(led), {"target": TARGET, "name": f"e{number}"})
    assert (
        "Closing it reaches 17 endpoints, 0 or more waiting executions (counted for 16 of the endpoints)."
        in visitor.get("/console/processes")
    )


def test_pause_of_a_schedule_counts_its_runs_of_the_day_and_waiting_executions(
    api: Api, visitor: Visitor, schedule: str
) -> None:
    created(api, interval(every="6h", name="beat"))
    page = visitor.get("/console/schedules?date=2099-01-01")
    assert "The pause reaches 1 further run of the day, 3 waiting executions." in page
    assert "The pause reaches 4 further runs of the day." in page
    assert "further run" not in visitor.get("/console/schedules?date=2020-01-01")


def test_job_counts_what_its_pause_and_its_cancellation_reach(api: Api, visitor: Visitor, schedule: str) -> None:
    page = visitor.get(f"/console/jobs/{schedule}")
    assert "The pause reaches 3 waiting executions." in page
    assert "The cancellation reaches 3 waiting executions." in page
    assert "the next is" in page
    once = visitor.get(f"/console/jobs/{created(api, one_shot('order-1'))['job_id']}")
    assert "The pause reaches 1 waiting execution." in once
    assert "not caught up" not in once


def test_editor_counts_the_executions_that_a_new_version_cancels(
    visitor: Visitor, schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, do = f"/console/jobs/{schedule}/edit", f"/console/do/put/jobs/{schedule}"
    typed = visitor.form(path, do) | {"cron": "0 3 * * *", "timezone": "UTC", "input": "{}", "do": "check"}
    shown = visitor.send(do, typed).get_data(as_text=True)
    assert f"{REPLACED}<b>2</b>. Those that have begun run to their end: <b>1</b>." in shown
    changed = visitor.act(path, do, **typed | {"do": "save"})
    assert "Version 2 is in effect" in changed
    cancelled = visitor.get(f"/console/executions?status=CANCELLED&job_id={schedule}")
    assert cancelled.count('<tr id="exec_') == 2


def test_counts_of_many_executions_are_not_complete(
    database: Database, schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = open_executions.open_executions(database, [schedule, "job_none"])
    assert found[schedule] == open_executions.OpenExecutions(waiting=3, not_begun=2)
    assert found["job_none"] == open_executions.OpenExecutions()
    monkeypatch.setattr(open_executions, "MAX_COUNTED", 2)
    assert not open_executions.open_executions(database, ["job_none", schedule])["job_none"].is_complete
    assert open_executions.open_executions(database, []) == {}


def test_pause_of_a_workflow_counts_its_open_nodes_and_running_executions(
    api: Api, visitor: Visitor, database: Database
) -> None:
    register(api, "chat")
    nodes = [{"name": "a", "endpoint": "chat"}, {"name": "b", "endpoint": "chat", "after": ["a"]}]
    workflow = api.post("/workflows", {"name": "w", "nodes": nodes}).json["workflow_id"]
    page = visitor.get(f"/console/workflows/{workflow}")
    assert "The pause reaches 2 open nodes, 1 running execution." in page
    visitor.act(f"/console/workflows/{workflow}", f"/console/do/post/workflows/{workflow}/pause")
    assert "The pause reaches" not in visitor.get(f"/console/workflows/{workflow}")
