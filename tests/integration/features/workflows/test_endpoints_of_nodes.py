"""Endpoints that nodes of a running workflow may still need: they cannot be deleted."""

from typing import Any

import pytest
from sqlalchemy import text

from app.feature import completion_handlers
from app.features import FEATURES
from app.features.workflows import workflow_requests
from app.features.workflows.rules.graph import FindEndpoints, Graph, parse
from app.kernel.db import Database
from app.queue.ending.outbox_processor import OutboxProcessor
from tests.integration.client import Api, pointers, problem
from tests.integration.features.workflows.created import body, count, made
from tests.integration.registered import register
from tests.racing import at_once

FIRST = {"name": "first", "endpoint": "target"}


def cancel(api: Api, database: Database, workflow_id: str) -> None:
    """Cancel a workflow until it has ended."""
    assert api.post(f"/workflows/{workflow_id}/cancel").status_code == 202
    ended = [row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends"))]
    OutboxProcessor(database, handlers=completion_handlers(FEATURES)).handle(ended)
    assert api.post(f"/workflows/{workflow_id}/cancel").json["status"] == "CANCELLED"


@pytest.fixture(autouse=True)
def _other(registered: Api) -> None:
    register(registered, "other")


@pytest.mark.parametrize(
    "needs",
    [
        {"name": "n", "endpoint": "other"},
        {"name": "n", "endpoint": "other", "for_each": [1]},
        {"name": "n", "group": [{"name": "m", "endpoint": "target"}, {"name": "o", "endpoint": "other"}]},
    ],
    ids=["job", "items", "group"],
)
def test_endpoint_of_a_waiting_node_is_not_deleted(registered: Api, database: Database, needs: dict[str, Any]) -> None:
    workflow_id = made(registered, FIRST, needs | {"after": ["first"]})
    error = problem(registered.delete("/endpoints/other"), 409, "CONFLICT")
    assert [detail["message"] for detail in error["details"]] == [f"In use by workflow {workflow_id}."]
    assert f"in use by workflow {workflow_id}." in error["message"]
    cancel(registered, database, workflow_id)
    assert registered.delete("/endpoints/other").status_code == 204


@pytest.mark.parametrize(
    "first",
    [
        FIRST | {"compensate": {"endpoint": "other"}},
        {"name": "first", "group": [{"name": "m", "endpoint": "target", "compensate": {"endpoint": "other"}}]},
        {"name": "first", "endpoint": "other", "compensate": {"endpoint": "other"}},
    ],
    ids=["job", "group", "the same endpoint"],
)
def test_endpoint_of_a_compensation_is_not_deleted_until_the_workflow_ends(
    registered: Api, database: Database, first: dict[str, Any]
) -> None:
    workflow_id = made(registered, first, {"name": "n", "endpoint": "target", "after": ["first"]})
    assert count(database, "workflow_nodes WHERE node = 1 AND item = 0 AND state = 'RUNNING'") == 1
    assert f"workflow {workflow_id}" in problem(registered.delete("/endpoints/other"), 409, "CONFLICT")["message"]
    cancel(registered, database, workflow_id)
    assert registered.delete("/endpoints/other").status_code == 204


def test_endpoint_of_a_ready_node_is_not_deleted(registered: Api) -> None:
    workflow_id = made(registered, FIRST, {"name": "n", "endpoint": "other"}, max_parallel=1)
    assert f"workflow {workflow_id}" in problem(registered.delete("/endpoints/other"), 409, "CONFLICT")["message"]


def test_endpoint_of_further_items_is_not_deleted(registered: Api) -> None:
    items = [{"name": "m", "endpoint": "target"}, {"name": "o", "endpoint": "other"}]
    workflow_id = made(registered, {"name": "n", "group": items, "max_parallel": 1})
    assert f"workflow {workflow_id}" in problem(registered.delete("/endpoints/other"), 409, "CONFLICT")["message"]


def test_endpoint_deleted_during_the_creation_is_named(
    registered: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deletion is committed between the check of the graph and its transaction."""

    def parse_and_delete(given: Any, find: FindEndpoints) -> Graph:
        graph = parse(given, find)
        assert registered.delete("/endpoints/other").status_code == 204
        return graph

    monkeypatch.setattr(workflow_requests, "parse", parse_and_delete)
    answer = registered.post("/workflows", body(FIRST, {"name": "n", "endpoint": "other"}))
    assert pointers(problem(answer, 422, "INVALID_WORKFLOW")) == ["/nodes/1/endpoint"]
    assert count(database, "workflows") == 0


def test_deletion_and_creation_at_the_same_moment_exclude_each_other(registered: Api, database: Database) -> None:
    def create() -> int:
        nodes = FIRST, {"name": "n", "endpoint": "other", "after": ["first"]}
        return Api(registered.app, registered.key).post("/workflows", body(*nodes)).status_code

    def delete() -> int:
        return Api(registered.app, registered.key).delete("/endpoints/other").status_code

    for _ in range(10):
        outcome = at_once(create, delete)
        assert outcome in ([201, 409], [422, 204])
        if outcome[0] == 201:
            (running,) = registered.get("/workflows", status="RUNNING").json["items"]
            cancel(registered, database, running["workflow_id"])
            assert registered.delete("/endpoints/other").status_code == 204
        register(registered, "other")
