"""Workflows with real processes: each node is delivered once, in the order of the graph, without a scheduler.

Endpoints of the type WORKFLOW: each way to start a job starts a workflow.
"""

from typing import Any

import pytest
from sqlalchemy import text

from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from app.kernel.db import Database
from tests.acceptance.flow.registered import register
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

ITEMS = 50
FINAL = {"SUCCEEDED", "FAILED", "CANCELLED"}
STEP = {"name": "step", "endpoint": "step", "input": {"body": {"day": "{{workflow.input.day}}"}}}
REPORT = {"nodes": [STEP], "output": {"day": "{{parents.step.output.body.day}}"}}


@pytest.fixture(scope="module")
def api(shared_stack: Stack, shared_api: Api, receiver: Receiver) -> Api:
    """A client of an API with a worker, and the endpoints of nodes, which all tests share."""
    shared_stack.web()
    shared_stack.worker()
    register(shared_api, receiver, "step", "mirror")
    register(shared_api, receiver, "bad", "status/500")
    return shared_api


@pytest.fixture(scope="module")
def running(api: Api, shared_stack: Stack) -> Api:
    """The same with a scheduler; the first test, which needs none, runs before."""
    shared_stack.scheduler()
    return api


def wait_for_workflow(api: Api, workflow_id: str) -> Any:
    def final() -> Any:
        found = api.get(f"/workflows/{workflow_id}")
        return found if found["status"] in FINAL else None

    return eventually(final, what=f"the end of the workflow {workflow_id}")


def states(api: Api, workflow_id: str) -> dict[str, str]:
    return {node["name"]: node["state"] for node in api.get(f"/workflows/{workflow_id}/nodes")["items"]}


def test_graph_of_all_shapes_runs_once_and_a_failed_graph_calls_its_handler(api: Api, receiver: Receiver) -> None:
    """A diamond, a list of 50 items, a group with a chord; and a failure with a handler."""
    for name in ("rows", "side", "item", "member", "end"):
        register(api, receiver, name, "mirror")
    register(api, receiver, "alarm", "ok")
    rows = {"rows": [{"n": number} for number in range(ITEMS)]}
    members = [{"name": name, "endpoint": "member", "input": {"body": {"name": name}}} for name in ("one", "two")]
    nodes = [
        {"name": "rows", "endpoint": "rows", "input": {"body": rows}},
        {"name": "left", "endpoint": "side", "after": ["rows"], "input": {"body": "left"}},
        {"name": "right", "endpoint": "side", "after": ["rows"], "input": {"body": "{{parents.rows.status}}"}},
        {
            "name": "items",
            "endpoint": "item",
            "after": ["rows"],
            "for_each": "{{parents.rows.output.body.rows}}",
            "input": {"body": {"n": "{{item.n}}", "number": "{{item_number}}"}},
            "max_parallel": 20,
        },
        {"name": "group", "after": ["rows"], "group": members},
        {"name": "joined", "after": ["left", "right", "items", "group"]},
        {
            "name": "end",
            "endpoint": "end",
            "after": ["joined"],
            "input": {"body": {"count": "{{parents.items.succeeded}}", "group": "{{parents.group.results}}"}},
        },
        {"name": "alarm", "endpoint": "alarm", "after": ["end"], "run_if": "any_failed"},
    ]
    failing = [
        {"name": "bad", "endpoint": "bad", "input": {"body": 1}},
        {"name": "behind", "endpoint": "side", "after": ["bad"]},
        {
            "name": "alarm",
            "endpoint": "alarm",
            "after": ["bad"],
            "run_if": "any_failed",
            "input": {"body": "{{parents.bad.error.type}}"},
        },
    ]
    well, failed = (api.post("/workflows", {"name": "w", "nodes": each})["workflow_id"] for each in (nodes, failing))

    assert wait_for_workflow(api, well)["status"] == "SUCCEEDED", api.get(f"/workflows/{well}/explain")
    assert states(api, well) == dict.fromkeys(states(api, well), "SUCCEEDED") | {"alarm": "SKIPPED"}
    (end,) = receiver.wait_for(1, path="/mirror/end")
    assert end.json["count"] == ITEMS
    assert [result["body"] for result in end.json["group"]] == [{"name": "one"}, {"name": "two"}]
    items = [request.json for request in receiver.requests if request.path == "/mirror/item"]
    assert sorted(items, key=lambda item: item["n"]) == [{"n": n, "number": n + 1} for n in range(ITEMS)]
    sides = [request.json for request in receiver.requests if request.path == "/mirror/side"]
    assert sorted(sides) == ["SUCCEEDED", "left"]

    assert wait_for_workflow(api, failed)["reason"] == "NODE_FAILED"
    assert states(api, failed) == {"bad": "FAILED", "behind": "SKIPPED", "alarm": "SUCCEEDED"}
    assert [request.json for request in receiver.requests if request.path == "/ok/alarm"] == ["HTTP_ERROR"]
    assert "bad failed (HTTP_ERROR)" in api.get(f"/workflows/{failed}/explain")["explanation"]


def define(api: Api, name: str, spec: dict[str, Any], **fields: Any) -> None:
    api.post("/endpoints", {"name": name, "type": "WORKFLOW", "spec": spec, **fields})


def ended(api: Api, execution_id: str) -> Any:
    def final() -> Any:
        found = api.get(f"/executions/{execution_id}")
        return found if found["completed_at"] else None

    return eventually(final, what=f"the end of the execution {execution_id}")


def run(api: Api, endpoint: str, **fields: Any) -> str:
    """Create a job, and return the id of its execution."""
    job = api.post("/jobs", {"endpoint": endpoint, "trigger": "IMMEDIATE", "idempotency_key": endpoint, **fields})
    found: str = job["execution"]["execution_id"]
    return found


def test_each_route_starts_one_workflow(running: Api, receiver: Receiver, shared_database: Database) -> None:
    """A key given twice, te_enqueue, an interval, and a batch; the callback gets the output of the workflow."""
    called = {"url": f"{receiver.base_url}/ok/outcome", "body_template": {"output": "{{input.output}}"}}
    running.post("/endpoints", {"name": "outcome", "type": "HTTP", "spec": called})
    define(running, "report", REPORT, callbacks={"on_success": "outcome"})
    first = run(running, "report", input={"day": 1})
    assert run(running, "report", input={"day": 1}) == first
    output = ended(running, first)["output"]
    assert output == {"workflow_id": output["workflow_id"], "body": {"day": 1}}
    workflow = running.get(f"/workflows/{output['workflow_id']}")
    assert (workflow["name"], workflow["status"], workflow["input"]) == ("report", "SUCCEEDED", {"day": 1})
    (outcome,) = receiver.wait_for(1, path="/ok/outcome")
    assert outcome.json["output"]["body"] == {"day": 1}

    enqueue = text("""SELECT execution_id FROM te_enqueue('report', '{"day": 2}')""")
    assert ended(running, shared_database.fetch(enqueue)[0].execution_id)["output"]["body"] == {"day": 2}
    batch = [
        {"endpoint": "report", "trigger": "IMMEDIATE", "idempotency_key": f"day-{day}", "input": {"day": day}}
        for day in (3, 4)
    ]
    for made in running.post("/jobs/batch", {"jobs": batch})["items"]:
        ended(running, made["job"]["execution"]["execution_id"])
    every = {"endpoint": "report", "trigger": "INTERVAL", "every": "1s", "input": {"day": 5}}
    repeating = running.post("/jobs", every)["job_id"]

    def days() -> list[int]:
        return [request.json["day"] for request in receiver.requests if request.path == "/mirror/step"]

    eventually(lambda: days().count(5) >= 2)
    assert [days().count(day) for day in (1, 2, 3, 4)] == [1, 1, 1, 1]
    running.post(f"/jobs/{repeating}/cancel")


def test_failed_workflow_fails_its_execution_with_the_node(running: Api) -> None:
    define(running, "failing", {"nodes": [{"name": "broken", "endpoint": "bad", "input": {"body": 1}}]})
    found = ended(running, run(running, "failing"))
    error = found["last_error"]
    assert (found["status"], error["type"]) == ("FAILED", "WORKFLOW_FAILED")
    assert error["message"] == "its workflow failed: node broken FAILED"
    assert running.get(f"/workflows/{error['workflow_id']}")["status"] == "FAILED"
    eventually(lambda: found["execution_id"] in {each["execution_id"] for each in running.items("/dead-letters")})


@pytest.mark.parametrize("request_", ["request", "abort"])
def test_cancelled_execution_cancels_its_workflows(running: Api, request_: str) -> None:
    """The inner workflow is a node of the outer workflow; the execution of the outer workflow is cancelled."""
    waiting = {"name": "late", "endpoint": "step", "delay": "1h", "input": {"body": 1}}
    inner, outer = f"inner-{request_}", f"outer-{request_}"
    define(running, inner, {"nodes": [waiting]})
    define(running, outer, {"nodes": [{"name": "child", "endpoint": inner}]})
    execution = run(running, outer)
    started = eventually(lambda: [each for each in running.get("/workflows")["items"] if each["name"] == inner])
    running.post(f"/executions/{execution}/cancel?if_running={request_}")
    assert ended(running, execution)["status"] == "CANCELLED"
    assert running.get(f"/workflows/{started[0]['workflow_id']}")["status"] == "CANCELLED"


def test_sub_workflow_ends_its_node_with_its_output(running: Api) -> None:
    define(running, "inner", REPORT)
    nodes = [
        {"name": "child", "endpoint": "inner", "input": {"day": "{{workflow.input.day}}"}},
        {"name": "last", "endpoint": "step", "after": ["child"], "input": {"body": "{{parents.child.output.body}}"}},
    ]
    define(running, "outer", {"nodes": nodes, "output": "{{parents.last.output.body}}"})
    assert ended(running, run(running, "outer", input={"day": 7}))["output"]["body"] == {"day": 7}
