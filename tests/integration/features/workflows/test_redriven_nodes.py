"""Redrive of dead letters of nodes through the API: their workflow goes on."""

from sqlalchemy import text

from app.feature import completion_handlers
from app.features import FEATURES
from app.kernel.db import Database
from app.queue.ending.outbox_processor import OutboxProcessor
from tests.contract.features.workflows import flows
from tests.integration.client import Api, problem

NODES = [{"name": "a", "endpoint": "target"}, {"name": "b", "endpoint": "target", "after": ["a"]}]


def failed_workflow(api: Api, database: Database) -> str:
    """Create a workflow with a failed first node; returns its id."""
    made: str = api.post("/workflows", {"name": "w", "nodes": NODES}).json["workflow_id"]
    flows.register(database)
    handle(database, flows.end(database, flows.claims(database), flows.FAILED))
    flows.advance(database, made)
    assert api.get(f"/workflows/{made}").json["status"] == "FAILED"
    return made


def handle(database: Database, events: list[str]) -> None:
    OutboxProcessor(database, handlers=completion_handlers(FEATURES)).handle(events)


def test_redriven_letter_carries_its_workflow_on(registered: Api, database: Database) -> None:
    workflow_id = failed_workflow(registered, database)
    (letter,) = registered.get("/dead-letters").json["items"]
    assert registered.post(f"/dead-letters/{letter['letter_id']}/redrive", {}).status_code in {200, 202}
    flows.advance(database, workflow_id)
    assert registered.get(f"/workflows/{workflow_id}").json["status"] == "RUNNING"
    assert flows.run(database, workflow_id) == [["a"], ["b"]]
    assert registered.get(f"/workflows/{workflow_id}").json["status"] == "SUCCEEDED"
    history = registered.get(f"/workflows/{workflow_id}/history").json["items"]
    assert [(change["to"], change["reason"]) for change in history][-2:] == [
        ("RUNNING", "RETRIED"),
        ("SUCCEEDED", None),
    ]


def test_letter_of_an_earlier_run_is_refused_with_the_newer_run(registered: Api, database: Database) -> None:
    workflow_id = failed_workflow(registered, database)
    (letter,) = registered.get("/dead-letters").json["items"]
    assert registered.post(f"/workflows/{workflow_id}/retry", {"failed": True}).status_code == 200
    error = problem(registered.post(f"/dead-letters/{letter['letter_id']}/redrive", {}), 409, "CONFLICT")
    assert "is of run 1 of the node 'a'" in error["message"]
    error = problem(registered.post(f"/executions/{letter['execution_id']}/retry"), 409, "CONFLICT")
    assert "which is at run 2" in error["message"]
    left = database.fetch(text("SELECT resolved_at FROM dead_letters"))
    assert left[0].resolved_at is None
