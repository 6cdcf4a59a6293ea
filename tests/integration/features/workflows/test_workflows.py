"""Workflows through the API: created once, read, drawn, explained, paused and cancelled."""

import pytest
from sqlalchemy import text
from werkzeug.test import TestResponse

from app.feature import completion_handlers
from app.features import FEATURES
from app.features.workflows.rules.workflow_bounds import MAX_BODY_BYTES, MAX_NODES
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.queue.ending.outbox_processor import OutboxProcessor
from tests.cases import each_case
from tests.integration.client import Api, pointers, problem, read_all_pages
from tests.integration.features.workflows.created import body, count, made
from tests.integration.lost_answers import lose_answer_of_next_commit
from tests.integration.registered import register
from tests.racing import at_once


def test_created_workflow_runs_its_first_nodes(registered: Api) -> None:
    given = {"labels": {"team": "a"}, "input": {"day": 1}, "max_parallel": 3, "on_failure": "continue"}
    answer = registered.post("/workflows", body(**given)).json
    workflow_id = answer["workflow_id"]
    assert {name: answer[name] for name in given} == given
    assert {name: answer[name] for name in ("status", "nodes", "open_nodes", "running", "progress", "waits_for")} == {
        "status": "RUNNING",
        "nodes": 5,
        "open_nodes": 5,
        "running": 1,
        "progress": 0.0,
        "waits_for": ["start"],
    }
    assert registered.get(f"/workflows/{workflow_id}").json == answer
    nodes = registered.get(f"/workflows/{workflow_id}/nodes").json["items"]
    assert [(node["name"], node["kind"], node["state"]) for node in nodes] == [
        ("start", "job", "RUNNING"),
        ("left", "job", "WAITING"),
        ("right", "for_each", "WAITING"),
        ("join", "gate", "WAITING"),
        ("end", "job", "WAITING"),
    ]
    execution = registered.get(f"/executions/{nodes[0]['execution_id']}").json
    assert (execution["status"], execution["endpoint"]) == ("QUEUED", "target")
    assert execution["workflow"] == {"workflow_id": workflow_id, "node": nodes[0]["number"], "item": 0, "run": 1}


def test_repeated_request_gets_the_first_workflow_with_any_body(registered: Api, database: Database) -> None:
    first = registered.post("/workflows", body(idempotency_key="k"))
    again = registered.post("/workflows", {"name": "w", "nodes": []}, headers={"Idempotency-Key": "k"})
    other = registered.post("/workflows", body({"name": "a"}, idempotency_key="k"))
    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 200)
    assert first.json["workflow_id"] == again.json["workflow_id"] == other.json["workflow_id"]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (count(database, "workflows"), count(database, "workflow_nodes")) == (1, 5)
    differs = registered.post("/workflows", body(idempotency_key="k"), headers={"Idempotency-Key": "x"})
    assert pointers(problem(differs, 400, "INVALID_REQUEST")) == ["/idempotency_key"]


def test_concurrent_requests_with_one_key_make_one_workflow(registered: Api, database: Database) -> None:
    def post() -> TestResponse:
        return Api(registered.app, registered.key).post("/workflows", body(idempotency_key="k"))

    answers = at_once(*[post] * 4)
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 201]
    assert len({answer.json["workflow_id"] for answer in answers}) == 1
    assert (count(database, "workflows"), count(database, "jobs")) == (1, 1)


def test_refused_workflow_leaves_no_row(registered: Api, database: Database) -> None:
    cyclic = ({"name": "a", "after": ["b"]}, {"name": "b", "after": ["a"]})
    error = problem(registered.post("/workflows", body(*cyclic)), 422, "WORKFLOW_CYCLE")
    assert "a → b → a" in error["message"] or "b → a → b" in error["message"]
    faulty = ({"name": "a", "endpoint": "gone"}, {"name": "b", "after": ["c"]})
    error = problem(registered.post("/workflows", body(*faulty)), 422, "INVALID_WORKFLOW")
    assert set(pointers(error)) == {"/nodes/0/endpoint", "/nodes/1/after/0"}
    error = problem(registered.post("/workflows", {"nodes": [{"nam": "a"}]}), 400, "INVALID_REQUEST")
    assert set(pointers(error)) == {"/name", "/nodes/0/nam", "/nodes/0/name"}
    assert [count(database, table) for table in ("workflows", "workflow_nodes", "workflow_edges")] == [0, 0, 0]


def test_body_may_be_larger_than_the_body_of_a_job(registered: Api) -> None:
    gates = [{"name": f"gate-number-{n}-{'x' * 90}", "after": ["start"]} for n in range(MAX_NODES - 1)]
    answer = registered.post("/workflows", body({"name": "start", "endpoint": "target", "delay": "1d"}, *gates))
    assert (answer.status_code, answer.json["nodes"]) == (201, MAX_NODES)
    large = registered.post("/workflows", body(input={"x": "y" * 17_000_000}))
    error = problem(large, 413, "PAYLOAD_TOO_LARGE")
    assert f"At most {MAX_BODY_BYTES} bytes" in error["message"]


def test_lists_filter_by_status_name_and_labels(registered: Api) -> None:
    labelled = made(registered, labels={"team": "a", "env": "b"})
    named = made(registered, name="other")
    third = made(registered)
    assert read_all_pages(registered, "/workflows", "workflow_id", limit=2) == [third, named, labelled]
    assert read_all_pages(registered, "/workflows", "workflow_id", labels="team=a") == [labelled]
    assert read_all_pages(registered, "/workflows", "workflow_id", name="other", status="RUNNING") == [named]
    assert read_all_pages(registered, "/workflows", "workflow_id", status="FAILED") == []
    assert read_all_pages(registered, "/workflows", "workflow_id", created_after="2100-01-01T00:00:00Z") == []


def test_nodes_are_paged_in_their_order_and_by_state(registered: Api) -> None:
    path = f"/workflows/{made(registered)}/nodes"
    assert read_all_pages(registered, path, "name", limit=2) == ["start", "left", "right", "join", "end"]
    assert read_all_pages(registered, path, "name", state="RUNNING") == ["start"]
    problem(registered.get("/workflows/wf_nope/nodes"), 404, "WORKFLOW_NOT_FOUND")


def test_node_shows_its_definition_and_neighbours(registered: Api) -> None:
    workflow_id = made(registered)
    node = registered.get(f"/workflows/{workflow_id}/nodes/join").json
    assert (node["after"], node["before"], node["kind"]) == (["left", "right"], ["end"], "gate")
    right = registered.get(f"/workflows/{workflow_id}/nodes/right").json
    assert right["definition"]["for_each"] == [1, 2, 3]
    assert registered.get(f"/workflows/{workflow_id}/nodes/right/items").json["items"] == []
    problem(registered.get(f"/workflows/{workflow_id}/nodes/nope/items"), 404, "WORKFLOW_NODE_NOT_FOUND")
    problem(registered.get("/workflows/wf_nope/nodes/join"), 404, "WORKFLOW_NOT_FOUND")


def test_started_items_are_listed_in_their_order(registered: Api) -> None:
    members = [{"name": "one", "endpoint": "target"}, {"name": "two", "endpoint": "target"}]
    workflow_id = made(
        registered, {"name": "g", "group": members}, {"name": "e", "endpoint": "target", "for_each": [7, 8]}
    )
    of_group = registered.get(f"/workflows/{workflow_id}/nodes/g/items").json["items"]
    assert [(item["item"], item["name"], item["state"]) for item in of_group] == [
        (1, "one", "RUNNING"),
        (2, "two", "RUNNING"),
    ]
    assert read_all_pages(registered, f"/workflows/{workflow_id}/nodes/e/items", "item", limit=1) == [1, 2]
    assert read_all_pages(registered, f"/workflows/{workflow_id}/nodes/e/items", "item", state="FAILED") == []


def test_graph_is_read_as_json_and_drawn_for_mermaid_and_graphviz(registered: Api) -> None:
    path = f"/workflows/{made(registered)}/graph"
    graph = registered.get(path).json
    names = {node["number"]: node["name"] for node in graph["nodes"]}
    assert {(names[parent], names[child]) for parent, child in graph["edges"]} == {
        *(("start", "left"), ("start", "right"), ("left", "join"), ("right", "join"), ("join", "end")),
    }
    mermaid = registered.send("GET", path, headers={"Accept": "text/vnd.mermaid"})
    assert mermaid.mimetype == "text/vnd.mermaid"
    assert mermaid.text.splitlines()[:2] == ["flowchart TD", '  n1["start<br>target<br>RUNNING"]:::running']
    assert '  n4{{"join<br>WAITING"}}' in mermaid.text.splitlines()
    dot = registered.send("GET", path, headers={"Accept": "text/vnd.graphviz"})
    assert dot.mimetype == "text/vnd.graphviz"
    assert '  n4 [label="join\\nWAITING", shape=diamond];' in dot.text.splitlines()
    assert "  n1 -> n2;" in dot.text.splitlines()
    problem(registered.get("/workflows/wf_nope/graph"), 404, "WORKFLOW_NOT_FOUND")


def test_critical_path_leads_to_the_open_node(registered: Api) -> None:
    workflow_id = made(registered, {"name": "gate"}, {"name": "a", "endpoint": "target", "after": ["gate"]})
    path = registered.get(f"/workflows/{workflow_id}/critical-path").json["nodes"]
    assert [(node["name"], node["state"]) for node in path] == [("gate", "SUCCEEDED"), ("a", "RUNNING")]
    assert (path[1]["started_at"], path[1]["ran_ms"]) == (None, 0)
    problem(registered.get("/workflows/wf_nope/critical-path"), 404, "WORKFLOW_NOT_FOUND")


def explanation(api: Api, workflow_id: str) -> str:
    found: str = api.get(f"/workflows/{workflow_id}/explain").json["explanation"]
    return found


def test_explanation_names_the_running_node_and_its_execution(registered: Api, database: Database) -> None:
    workflow_id = made(registered)
    assert "0 of 5 nodes done. left waits for start, which waits in its queue" in explanation(registered, workflow_id)
    database.fetch(
        text(
            "UPDATE executions SET status = 'RETRYING', attempt_count = 1, max_attempts = 3, started_at = now(), "
            "run_at = '2100-01-01T00:00:00Z'"
        )
    )
    assert "start, which failed 1 of 3 attempts and is tried again at 2100-01-01T00:00:00Z." in explanation(
        registered, workflow_id
    )


def test_pause_and_resume_are_in_the_history(registered: Api) -> None:
    workflow_id = made(registered)
    paused = registered.post(f"/workflows/{workflow_id}/pause")
    assert (paused.status_code, paused.json["status"]) == (200, "PAUSED")
    assert "No further node starts" in explanation(registered, workflow_id)
    assert registered.post(f"/workflows/{workflow_id}/resume").json["status"] == "RUNNING"
    changes = registered.get(f"/workflows/{workflow_id}/history").json["items"]
    assert [(change["from"], change["to"], change["actor"]) for change in changes] == [
        (None, "RUNNING", "test"),
        ("RUNNING", "PAUSED", "test"),
        ("PAUSED", "RUNNING", "test"),
    ]
    problem(registered.get("/workflows/wf_nope/history"), 404, "WORKFLOW_NOT_FOUND")


@pytest.mark.own_faults
def test_workflow_is_resumed_once_if_the_answer_of_the_commit_is_lost(
    registered: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps that follow are transactions of their own, so the request has no answer yet when it runs again."""
    workflow_id, keyed = made(registered), {"Idempotency-Key": "k"}
    assert registered.post(f"/workflows/{workflow_id}/pause").status_code == 200
    lose_answer_of_next_commit(database, monkeypatch)
    first = registered.post(f"/workflows/{workflow_id}/resume", headers=keyed)
    assert (first.status_code, first.json.get("status")) == (200, "RUNNING"), first.json
    again = registered.post(f"/workflows/{workflow_id}/resume", headers=keyed)
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (200, "true")
    problem(registered.post(f"/workflows/{workflow_id}/resume", headers={"Idempotency-Key": "other"}), 409, "CONFLICT")
    changes = registered.get(f"/workflows/{workflow_id}/history").json["items"]
    assert [change["to"] for change in changes] == ["RUNNING", "PAUSED", "RUNNING"]


def test_cancelled_workflow_skips_its_nodes_and_ends(registered: Api, database: Database) -> None:
    behind = {"name": "behind", "endpoint": "target", "after": ["a"]}
    workflow_id = made(registered, {"name": "a", "endpoint": "target"}, behind)
    response = registered.post(f"/workflows/{workflow_id}/cancel")
    assert (response.status_code, response.json["reason"]) == (202, "CANCELLED")
    problem(registered.post(f"/workflows/{workflow_id}/pause"), 409, "CONFLICT")
    ended = [row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends"))]
    OutboxProcessor(database, handlers=completion_handlers(FEATURES)).handle(ended)
    again = registered.post(f"/workflows/{workflow_id}/cancel", query_string={"if_running": "abort"})
    assert (again.status_code, again.json["status"], again.json["open_nodes"]) == (202, "CANCELLED", 0)
    page = registered.get(f"/workflows/{workflow_id}/nodes", state="SKIPPED").json["items"]
    assert [(node["name"], node["reason"]) for node in page] == [("behind", "STOPPED")]
    assert explanation(registered, workflow_id).endswith("2 of 2 nodes done, 1 of them skipped. a was cancelled.")
    assert registered.post(f"/workflows/{workflow_id}/cancel").status_code == 202
    problem(registered.post(f"/workflows/{workflow_id}/resume"), 409, "CONFLICT")
    problem(registered.post("/workflows/wf_nope/cancel"), 404, "WORKFLOW_NOT_FOUND")


@each_case(("scope", "status"), [(Scope.READ, 403), (Scope.JOBS_SEND, 403), (Scope.JOBS_WRITE, 201)])
def test_creation_needs_the_scope_of_jobs(registered: Api, database: Database, scope: Scope, status: int) -> None:
    caller = Api(registered.app, api_keys.create(database, "caller", [scope], None))
    assert caller.post("/workflows", body()).status_code == status


def test_body_of_an_endpoint_that_keeps_none_is_refused(registered: Api) -> None:
    register(registered, "silent", keep_response="never")
    nodes = (
        {"name": "a", "endpoint": "silent"},
        {"name": "b", "endpoint": "target", "after": ["a"], "input": {"user_id": "{{parents.a.output.body.id}}"}},
    )
    error = problem(registered.post("/workflows", body(*nodes)), 422, "INVALID_WORKFLOW")
    assert pointers(error) == ["/nodes/1/input/user_id"]


def test_topology_names_the_nodes_around_a_node(registered: Api) -> None:
    workflow_id = made(registered)
    found = registered.get(f"/workflows/{workflow_id}/topology").json
    assert found == {"roots": ["start"], "leaves": ["end"], "dependencies": None, "dependents": None}
    found = registered.get(f"/workflows/{workflow_id}/topology", of="join").json
    assert (found["dependencies"], found["dependents"]) == (["start", "left", "right"], ["end"])
    problem(registered.get(f"/workflows/{workflow_id}/topology", of="no"), 404, "WORKFLOW_NODE_NOT_FOUND")
    problem(registered.get("/workflows/wf_nope/topology"), 404, "WORKFLOW_NOT_FOUND")


def test_explanation_of_an_execution_names_its_workflow(registered: Api) -> None:
    workflow_id = made(registered)
    execution_id = registered.get(f"/workflows/{workflow_id}/nodes/start").json["execution_id"]
    explained = registered.get(f"/executions/{execution_id}/explain").json
    assert explained["explanation"].endswith(f" It is w/start of the workflow {workflow_id}.")
    assert explained["details"]["workflow"] == {"workflow_id": workflow_id, "node": 1, "item": 0, "run": 1}


def test_jobs_and_executions_of_a_workflow_are_listed_in_the_order_of_its_nodes(registered: Api) -> None:
    nodes = [{"name": "a", "endpoint": "target"}, {"name": "b", "endpoint": "target", "for_each": [1, 2, 3]}]
    workflow_id, other = (made(registered, *nodes) for _ in range(2))
    wanted = {"workflow": workflow_id, "limit": 2}
    assert read_all_pages(registered, "/jobs", "name", **wanted) == ["w/a", "w/b", "w/b", "w/b"]
    places = [(each["node"], each["item"]) for each in read_all_pages(registered, "/executions", "workflow", **wanted)]
    assert places == [(1, 0), (2, 1), (2, 2), (2, 3)]
    jobs, executions = (read_all_pages(registered, path, "job_id", **wanted) for path in ("/jobs", "/executions"))
    assert jobs == executions
    assert registered.get("/jobs", workflow="wf_nope").json["items"] == []
    for path in ("jobs", "executions"):
        refused = problem(registered.get(f"/{path}", workflow=other, endpoint="target"), 400, "INVALID_REQUEST")
        assert pointers(refused) == ["endpoint"]
