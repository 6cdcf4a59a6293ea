"""Retry of workflows through the API and the command line."""

from typing import Any

import pytest

from app.features.workflows.steps import advancing
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.function_types import never
from tests.cases import each_case
from tests.integration.client import Api, pointers, problem
from tests.integration.command_line import Cli
from tests.integration.lost_answers import lose_answer_of_next_commit

GATES = [{"name": "a"}, {"name": "b", "after": ["a"]}, {"name": "c", "after": ["b"]}]


@pytest.fixture
def workflow_id(registered: Api, database: Database) -> str:
    """A workflow of gates, which has succeeded; the request itself makes steps for a second only."""
    found: str = registered.post("/workflows", {"name": "w", "nodes": GATES}).json["workflow_id"]
    advancing.advance(database, found, until=never)
    assert registered.get(f"/workflows/{found}").json["status"] == "SUCCEEDED"
    return found


def answer(workflow_id: str, *, dry_run: bool) -> dict[str, Any]:
    nodes = {"again": ["b", "c"], "kept": ["a"]}
    return {"workflow_id": workflow_id, "status": "RUNNING", "dry_run": dry_run} | nodes


def test_dry_run_names_the_nodes_and_changes_nothing(registered: Api, workflow_id: str) -> None:
    before = registered.get(f"/workflows/{workflow_id}/nodes").json
    seen = registered.post(f"/workflows/{workflow_id}/retry", {"from_nodes": ["b"], "dry_run": True})
    assert (seen.status_code, seen.json) == (200, answer(workflow_id, dry_run=True))
    assert registered.get(f"/workflows/{workflow_id}/nodes").json == before
    assert registered.get(f"/workflows/{workflow_id}").json["status"] == "SUCCEEDED"


def test_nodes_run_again_at_once(registered: Api, workflow_id: str) -> None:
    done = registered.post(f"/workflows/{workflow_id}/retry", {"from_nodes": ["b"]})
    assert (done.status_code, done.json) == (200, answer(workflow_id, dry_run=False))
    nodes = registered.get(f"/workflows/{workflow_id}/nodes").json["items"]
    assert [(node["name"], node["run"], node["state"]) for node in nodes] == [
        ("a", 1, "SUCCEEDED"),
        ("b", 2, "SUCCEEDED"),
        ("c", 2, "SUCCEEDED"),
    ]
    changes = registered.get(f"/workflows/{workflow_id}/history").json["items"]
    assert [(change["to"], change["actor"], change["reason"]) for change in changes][2] == (
        "RUNNING",
        "test",
        "RETRIED",
    )
    assert registered.get(f"/workflows/{workflow_id}").json["status"] == "SUCCEEDED"


@pytest.mark.own_faults
@pytest.mark.parametrize("is_lost", [False, True])
def test_nodes_run_again_once_if_the_answer_of_the_commit_is_lost(
    registered: Api, database: Database, monkeypatch: pytest.MonkeyPatch, workflow_id: str, is_lost: bool
) -> None:
    if is_lost:
        lose_answer_of_next_commit(database, monkeypatch)
    for is_replay in (None, "true"):
        done = registered.post(
            f"/workflows/{workflow_id}/retry", {"from_nodes": ["b"]}, headers={"Idempotency-Key": "k"}
        )
        assert (done.status_code, done.json) == (200, answer(workflow_id, dry_run=False))
        assert done.headers.get("Idempotency-Replayed") == is_replay
    nodes = registered.get(f"/workflows/{workflow_id}/nodes").json["items"]
    assert [(node["name"], node["run"]) for node in nodes] == [("a", 1), ("b", 2), ("c", 2)]
    # A scheduler makes the steps that a lost answer leaves.
    assert registered.get(f"/workflows/{workflow_id}").json["status"] == ("RUNNING" if is_lost else "SUCCEEDED")


@each_case(
    ("body", "at"),
    [
        ({}, [""]),
        ({"from_nodes": ["a"], "failed": True}, [""]),
        ({"failed": False}, [""]),
        ({"from_nodes": []}, ["/from_nodes"]),
        ({"from_nodes": "a"}, ["/from_nodes"]),
        ({"from_nodes": ["a", "A b"]}, ["/from_nodes/1"]),
        ({"from_nodes": ["a", "bb", "c"]}, ["/from_nodes/1"]),
        ({"failed": "yes"}, ["/failed"]),
        ({"from_nodes": ["a"], "dryrun": True}, ["/dryrun"]),
    ],
)
def test_invalid_retry_names_its_faults(registered: Api, workflow_id: str, body: Any, at: list[str]) -> None:
    refused = problem(registered.post(f"/workflows/{workflow_id}/retry", body), 400, "INVALID_REQUEST")
    assert pointers(refused) == at


def test_running_and_unknown_workflows_are_refused(registered: Api) -> None:
    nodes = [{"name": "a", "endpoint": "target"}]
    running = registered.post("/workflows", {"name": "w", "nodes": nodes}).json["workflow_id"]
    error = problem(registered.post(f"/workflows/{running}/retry", {"from_nodes": ["a"]}), 409, "CONFLICT")
    assert "only an ended or paused workflow can be retried" in error["message"]
    problem(registered.post("/workflows/wf_nope/retry", {"failed": True}), 404, "WORKFLOW_NOT_FOUND")


def test_retry_needs_the_scope_of_jobs(registered: Api, database: Database, workflow_id: str) -> None:
    for scope, status in ((Scope.READ, 403), (Scope.JOBS_SEND, 403), (Scope.JOBS_WRITE, 200)):
        caller = Api(registered.app, api_keys.create(database, f"caller-{scope.value[:4]}", [scope], None))
        assert caller.post(f"/workflows/{workflow_id}/retry", {"from_nodes": ["a"]}).status_code == status


def test_command_retries(workflow_id: str, cli: Cli) -> None:
    assert cli.json("workflows", "retry", workflow_id, "--from", "b", "--dry-run") == answer(workflow_id, dry_run=True)
    lines = cli.run("workflows", "retry", workflow_id, "--from", "b", "--dry-run").stdout
    assert "2 nodes would run again (dry run): b, c; 1 node keeps earlier results" in lines
    cli.run("workflows", "retry", workflow_id, "--from", "b", expect=2)
    assert cli.json("workflows", "retry", workflow_id, "--from", "b", "--yes") == answer(workflow_id, dry_run=False)
    cli.run("workflows", "retry", workflow_id, "--from", "b", "--yes", expect=4)
    cli.run("workflows", "retry", workflow_id, "--from", "b", "--failed", expect=2)
    cli.run("workflows", "retry", "wf_nope", "--failed", "--yes", expect=3)
