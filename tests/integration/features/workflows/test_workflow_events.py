"""Events of workflows: changes of their status, and the place of executions of nodes."""

from sqlalchemy import text

from app.features.events.event import EventKind
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.executions.verdict import Verdict
from schema.states import ExecutionStatus, WorkflowStatus
from tests.integration.client import Api
from tests.integration.executions.worker import claim, end
from tests.integration.features.events.event_pages import events
from tests.integration.registered import created, one_shot
from tests.waiting import eventually


def made(api: Api, **fields: object) -> str:
    nodes = [
        {"name": "first", "endpoint": "target", "max_attempts": 2},
        {"name": "last", "endpoint": "target", "after": ["first"]},
    ]
    return str(api.post("/workflows", {"name": "report", "nodes": nodes, **fields}).json["workflow_id"])


def test_changes_of_a_workflow_are_events_in_their_order(registered: Api) -> None:
    workflow_id, other = made(registered, labels={"team": "a"}), made(registered)
    for verb in ("pause", "resume", "cancel"):
        assert registered.post(f"/workflows/{workflow_id}/{verb}").status_code in {200, 202}
    eventually(lambda: events(registered, kind="workflow")[4:])
    found = events(registered, kind="workflow", workflow_id=workflow_id)
    assert [event["kind"] for event in found] == [
        "workflow.started",
        "workflow.paused",
        "workflow.resumed",
        "workflow.stopping",
    ]
    assert found[-1]["details"] == {"from": "RUNNING", "to": "STOPPING", "reason": "CANCELLED"}
    assert {(event["subject"], event["workflow_id"]) for event in found} == {("report", workflow_id)}
    assert [event["workflow_id"] for event in events(registered, kind="workflow.started", labels="team=a")] == [
        workflow_id
    ]
    assert [event["workflow_id"] for event in events(registered, kind="workflow", workflow_id=other)] == [other]


def test_events_of_executions_have_their_place_in_the_workflow(registered: Api, database: Database) -> None:
    worker_lease.register(database, worker_id="wrk_1", host="h", pid=1, queues=["http"], capacity=9, lease_ms=60_000)
    workflow_id = made(registered)
    end(database, claim(database), Verdict(ExecutionStatus.RETRYING, 0, None, {"type": "X", "retryable": True}))
    end(database, claim(database), Verdict(ExecutionStatus.SUCCESS, None, {"status_code": 200}, None))
    outside = created(registered, one_shot("outside"))["job_id"]
    eventually(lambda: events(registered, job_id=outside))
    found = events(registered, workflow_id=workflow_id)
    assert [event["kind"] for event in found if event["kind"] != "workflow.started"] == [
        "job.created",
        "attempt.failed",
        "execution.succeeded",
    ]
    for event in found:
        if event["job_id"] is not None:
            place = {name: event["details"][name] for name in ("node", "item", "run")}
            assert place == {"node": 1, "item": 0, "run": 1}, event["kind"]
    assert {event["workflow_id"] for event in events(registered, job_id=outside)} == {None}


def test_each_status_of_a_workflow_has_an_event(registered: Api, database: Database) -> None:
    """A workflow that runs again after its end was retried."""
    workflow_id = made(registered)
    statement = """
    INSERT INTO workflow_events (event_id, workflow_id, from_status, to_status)
    VALUES (:to, :id, 'FAILED', :to) RETURNING event_id
    """
    for status in WorkflowStatus:
        database.fetch(text(statement), {"to": status.value, "id": workflow_id})
    found = eventually(lambda: (listed := events(registered, kind="workflow"))[len(WorkflowStatus) :] and listed)
    others = set(WorkflowStatus) - {WorkflowStatus.RUNNING}
    assert {event["kind"] for event in found} == {
        EventKind.WORKFLOW_STARTED,
        EventKind.WORKFLOW_RETRIED,
        *(EventKind(f"workflow.{status.value.lower()}") for status in others),
    }
