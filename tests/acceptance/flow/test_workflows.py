"""Workflows with real processes: each node is delivered once, in the order of the graph, without a scheduler."""

from typing import Any

import pytest

from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from tests.acceptance.flow.registered import register
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

ITEMS = 50
FINAL = {"SUCCEEDED", "FAILED", "CANCELLED"}


def wait_for_workflow(api: Api, workflow_id: str) -> Any:
    def final() -> Any:
        found = api.get(f"/workflows/{workflow_id}")
        return found if found["status"] in FINAL else None

    return eventually(final, what=f"the end of the workflow {workflow_id}")


def states(api: Api, workflow_id: str) -> dict[str, str]:
    return {node["name"]: node["state"] for node in api.get(f"/workflows/{workflow_id}/nodes")["items"]}


def test_graph_of_all_shapes_runs_once_and_a_failed_graph_calls_its_handler(
    stack: Stack, api: Api, receiver: Receiver
) -> None:
    """A diamond, a list of 50 items, a group with a chord; and a failure with a handler."""
    stack.web()
    stack.worker()
    for name in ("rows", "side", "item", "member", "end"):
        register(api, receiver, name, "mirror")
    register(api, receiver, "bad", "status/500")
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
