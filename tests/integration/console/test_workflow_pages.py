"""Pages of workflows: the list, the graph with its nodes, control, and a retry with its preview."""

import pytest
from flask import Flask
from sqlalchemy import text

from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor
from tests.integration.registered import register

NODES = [
    {"name": "extract", "endpoint": "target"},
    {"name": "score", "endpoint": "target", "after": ["extract"]},
    {"name": "publish", "endpoint": "target", "after": ["score"]},
]


@pytest.fixture
def workflow(api: Api) -> str:
    register(api)
    body = {"name": "nightly <report>", "labels": {"team": "billing"}, "input": {"day": 1}, "nodes": NODES}
    found: str = api.post("/workflows", body).json["workflow_id"]
    return found


def fail(database: Database) -> None:
    """End the workflow as a failure of its second node."""
    for name, state in (("extract", "SUCCEEDED"), ("score", "FAILED"), ("publish", "SKIPPED")):
        reason = "STOPPED" if state == "SKIPPED" else None
        change = "state = :state, reason = :reason, ready_at = now(), ended_at = now(), reported_to = NULL"
        database.fetch(
            text(f"UPDATE workflow_nodes SET {change} WHERE name = :name"),
            {"state": state, "reason": reason, "name": name},
        )
    counts = "open_nodes = 0, running = 0, succeeded = 1, failed = 1, skipped = 1"
    database.fetch(text(f"UPDATE workflows SET status = 'FAILED', reason = 'NODE_FAILED', ended_at = now(), {counts}"))


def test_list_shows_progress_and_filters(app: Flask, workflow: str) -> None:
    reader = Visitor(app, Scope.READ)
    page = reader.get("/console/workflows")
    assert all(part in page for part in ("nightly &lt;report&gt;", "0 of 3", "team=billing", "running", workflow))
    assert workflow in reader.get("/console/workflows?label=team%3Dbilling&status=RUNNING")
    assert "No workflow matches" in reader.get("/console/workflows?name=nobody")
    assert "Must be one of RUNNING" in reader.get("/console/workflows?status=X")


def test_list_without_workflows_says_how_to_create_one(app: Flask, database: Database) -> None:
    assert "POST /workflows" in Visitor(app, Scope.READ).get("/console/workflows")


def test_long_list_has_an_older_page(app: Flask, api: Api, workflow: str) -> None:
    for number in range(50):
        assert api.post("/workflows", {"name": f"w-{number}", "nodes": [{"name": "a"}]}).status_code == 201
    reader = Visitor(app, Scope.READ)
    page = reader.get("/console/workflows")
    assert workflow not in page
    older = page.partition('<p class="pages"><a href="')[2].partition('"')[0].replace("&amp;", "&")
    assert workflow in reader.get(older)


def test_page_draws_the_graph_and_explains_each_node(app: Flask, workflow: str) -> None:
    page = Visitor(app, Scope.READ).get(f"/console/workflows/{workflow}")
    assert page.count('class="edge') == 2
    assert all(part in page for part in ("<svg", "waits for extract", "waits for score", "&#34;day&#34;: 1"))
    assert "waits for score" in Visitor(app, Scope.READ).get(f"/console/workflows/{workflow}?state=WAITING")


def test_chosen_node_shows_its_neighbours_and_its_definition(app: Flask, workflow: str) -> None:
    reader = Visitor(app, Scope.READ)
    page = reader.get(f"/console/workflows/{workflow}?node=score")
    assert "Definition of the node" in page
    assert "no node" in reader.get(f"/console/workflows/{workflow}?node=nope")


def test_absent_workflow_is_not_found(app: Flask, database: Database) -> None:
    assert "no workflow" in Visitor(app, Scope.READ).get("/console/workflows/wf_none", 404)


def test_workflow_is_paused_resumed_and_cancelled(app: Flask, api: Api, workflow: str) -> None:
    path, do = f"/console/workflows/{workflow}", f"/console/do/post/workflows/{workflow}"
    visitor = Visitor(app, Scope.READ, Scope.JOBS_WRITE)
    assert "Paused" in visitor.act(path, f"{do}/pause")
    assert api.get(f"/workflows/{workflow}").json["status"] == "PAUSED"
    assert "Resumed" in visitor.act(path, f"{do}/resume")
    assert "Cancelled" in visitor.act(path, f"{do}/cancel", if_running="abort")
    assert api.get(f"/workflows/{workflow}").json["reason"] == "CANCELLED"
    assert [each["actor"] for each in api.get(f"/workflows/{workflow}/history").json["items"][1:3]] == ["visitor"] * 2


def test_reader_gets_no_control(app: Flask, workflow: str) -> None:
    path, do = f"/console/workflows/{workflow}", f"/console/do/post/workflows/{workflow}"
    reader = Visitor(app, Scope.READ)
    assert not any(reader.has_form(path, f"{do}/{name}") for name in ("pause", "resume", "cancel"))
    form = Visitor(app, Scope.READ, Scope.JOBS_WRITE).form(path, f"{do}/pause")
    form["csrf"] = reader.form(path, "/console/sign-out")["csrf"]
    assert reader.send(f"{do}/pause", form).status_code == 403
    assert "jobs:write" in reader.get(f"{path}/retry", 403)


def test_retry_says_first_which_nodes_run_again(app: Flask, api: Api, database: Database, workflow: str) -> None:
    fail(database)
    visitor = Visitor(app, Scope.READ, Scope.JOBS_WRITE)
    path, do = f"/console/workflows/{workflow}", f"/console/do/post/workflows/{workflow}/retry"
    assert "Run nodes again" in visitor.get(path)
    page = visitor.get(f"{path}/retry")
    assert "2 nodes run again" in page.replace("</b>", "")
    assert "1 node keeps its results" in page.replace("</b>", "")
    assert "3 nodes run again" in visitor.get(f"{path}/retry?from=extract")
    assert "no node" in visitor.get(f"{path}/retry?from=nope")
    assert "3 nodes run again" in visitor.get(f"{path}/retry?from=score&from=extract"), "two ticked nodes"
    assert api.get(f"/workflows/{workflow}").json["status"] == "FAILED", "a preview changes nothing"
    assert "2 nodes run again" in visitor.act(f"{path}/retry?from=score", do, **{"from": "score"})
    assert api.get(f"/workflows/{workflow}").json["status"] == "RUNNING"
