"""Endpoints of the type WORKFLOW through the API: all faults with their places, versions, deletion, depth."""

from typing import Any

import pytest
from sqlalchemy import text
from werkzeug.test import TestResponse

from app.kernel.db import Database
from tests.cases import each_case
from tests.integration.client import Api, pointers, problem
from tests.integration.registered import SCHEMA, created, one_shot, register

NODE = {"name": "a", "endpoint": "target"}


def definition(*nodes: dict[str, Any], name: str = "nightly", **spec: Any) -> dict[str, Any]:
    return {"name": name, "type": "WORKFLOW", "spec": {"nodes": [*(nodes or [NODE])], **spec}}


def define(api: Api, *nodes: dict[str, Any], name: str = "nightly", **spec: Any) -> TestResponse:
    return api.post("/endpoints", definition(*nodes, name=name, **spec))


@each_case(
    ("spec", "found"),
    [
        ({"nodes": []}, ["/spec/nodes"]),
        ({"nodes": "x"}, ["/spec/nodes"]),
        ({"nodes": [{"name": "a", "endpoint": "nope"}, {"nme": "b"}]}, None),
        ({"nodes": [NODE | {"after": ["b"]}, {"name": "b", "after": ["a"]}]}, ["/spec/nodes/0/after/0"]),
        ({"nodes": [NODE | {"input": {"x": "{{parents.b.output}}"}}]}, ["/spec/nodes/0/input/x"]),
        ({"nodes": [NODE], "deadline": "soon"}, ["/spec/deadline"]),
        ({"nodes": [NODE], "on_failure": "panic"}, ["/spec/on_failure"]),
        ({"nodes": [NODE], "output": {"x": ["{{parents.b.output}}"]}}, ["/spec/output/x/0"]),
        ({"nodes": [NODE], "output": "{{item}}"}, ["/spec/output"]),
        ({"nodes": [NODE], "output": "{{nonsense"}, ["/spec/output"]),
        ({"nodes": [NODE], "input": {}}, ["/spec/input"]),
    ],
)
def test_faults_of_a_definition_are_named_with_their_places(
    registered: Api, spec: dict[str, Any], found: list[str] | None
) -> None:
    error = problem(
        registered.post("/endpoints", {"name": "nightly", "type": "WORKFLOW", "spec": spec}), 400, "INVALID_REQUEST"
    )
    assert pointers(error) == (found or ["/spec/nodes/1/nme", "/spec/nodes/1/name", "/spec/nodes/0/endpoint"])


def test_variables_that_the_payload_spec_rules_out_are_named(registered: Api) -> None:
    schema = SCHEMA | {"additionalProperties": False}
    assert registered.post("/payload-specs", {"name": "closed", "schema": schema}).status_code == 201
    nodes = [NODE | {"input": {"user": "{{workflow.input.user_id}}", "day": "{{workflow.input.day}}"}}]
    error = problem(
        registered.post("/endpoints", definition(*nodes) | {"payload_spec": "closed"}), 400, "INVALID_REQUEST"
    )
    assert pointers(error) == ["/spec/nodes/0/input/day"]


def test_definition_is_shown_as_given_and_replaced_by_a_new_version(registered: Api) -> None:
    given = definition(NODE | {"input": {"day": "{{workflow.input.day}}"}}, output="{{parents.a.status}}")
    made = registered.post("/endpoints", given)
    assert (made.status_code, made.json["spec"], made.json["queue_in_effect"]) == (201, given["spec"], "workflow")
    job = created(registered, one_shot("k", endpoint="nightly"))
    assert job["endpoint_version"] == 1
    replaced = registered.put("/endpoints/nightly", {"type": "WORKFLOW", "spec": {"nodes": [NODE]}})
    assert (replaced.status_code, replaced.json["version"]) == (200, 2)
    problem(registered.put("/endpoints/nightly", {"type": "WORKFLOW", "spec": {"nodes": []}}), 400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    "node",
    [
        {"endpoint": "other"},
        {"group": [{"name": "m", "endpoint": "other"}]},
        {"endpoint": "target", "compensate": {"endpoint": "other"}},
    ],
)
def test_endpoint_that_a_definition_names_is_not_deleted(registered: Api, node: dict[str, Any]) -> None:
    register(registered, "other")
    assert define(registered, {"name": "n"} | node).status_code == 201
    assert "endpoint nightly" in problem(registered.delete("/endpoints/other"), 409, "CONFLICT")["message"]
    assert registered.delete("/endpoints/nightly").status_code == 204
    assert registered.delete("/endpoints/other").status_code == 204


@pytest.mark.parametrize("node", [{"endpoint": "one"}, {"endpoint": "target", "compensate": {"endpoint": "one"}}])
def test_definition_that_leads_back_to_itself_is_refused(registered: Api, node: dict[str, Any]) -> None:
    assert define(registered, name="one").status_code == 201
    assert define(registered, {"name": "n"} | node, name="two").status_code == 201
    changed = {"type": "WORKFLOW", "spec": {"nodes": [NODE, {"name": "n", "endpoint": "two"}]}}
    error = problem(registered.put("/endpoints/one", changed), 400, "INVALID_REQUEST")
    assert pointers(error) == ["/spec/nodes/1"]
    assert "lead back to this endpoint: two → one." in error["message"]


def test_workflows_more_than_8_deep_are_refused(registered: Api) -> None:
    for number in range(1, 9):
        node = NODE if number == 1 else {"name": "n", "endpoint": f"deep-{number - 1}"}
        assert define(registered, node, name=f"deep-{number}").status_code == 201
    node = {"name": "n", "endpoint": "deep-8"}
    assert pointers(problem(define(registered, node), 400, "INVALID_REQUEST")) == ["/spec/nodes/0"]
    error = problem(registered.post("/workflows", {"name": "w", "nodes": [NODE, node]}), 422, "INVALID_WORKFLOW")
    assert pointers(error) == ["/nodes/1"]
    assert "are more than 8 deep: deep-8 → deep-7" in error["message"]
    last = {"name": "n", "endpoint": "deep-7"}
    assert registered.post("/workflows", {"name": "w", "nodes": [last]}).status_code == 201


def test_sub_workflows_are_listed_by_their_parent(registered: Api, database: Database) -> None:
    made = [registered.post("/workflows", {"name": name, "nodes": [NODE]}).json for name in ("one", "two", "two")]
    parent, *children = [each["workflow_id"] for each in made]
    assert [made[0][name] for name in ("parent_id", "depth", "execution_id")] == [None, 1, None]
    move = text("UPDATE workflows SET parent_id = :parent, parent_node = 1, depth = 2 WHERE name = 'two'")
    database.fetch(move, {"parent": parent})

    def found(**filters: str) -> list[str]:
        items = registered.get("/workflows", parent_id=parent, **filters).json["items"]
        return sorted(each["workflow_id"] for each in items)

    assert found() == found(name="two", status="RUNNING") == sorted(children)
    assert found(name="one") == found(status="PAUSED") == []
