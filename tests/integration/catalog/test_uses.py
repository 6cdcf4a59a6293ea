"""Uses of endpoints, payload specs, configs and secrets: counts by kind, bounded, with examples."""

from typing import Any

import pytest

from app.catalog import uses
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests import rows
from tests.cases import each_case
from tests.integration.client import Api, problem
from tests.integration.registered import created, cron, http_endpoint, one_shot, register, register_all


def uses_of(api: Api, path: str) -> dict[str, dict[str, Any]]:
    """Return the uses by kind, without kinds that have none."""
    response = api.get(f"{path}/uses")
    assert response.status_code == 200, response.get_data(as_text=True)
    return {each["kind"]: each for each in response.json["uses"] if each["count"] or not each["is_complete"]}


def counts(api: Api, path: str) -> dict[str, int]:
    return {kind: each["count"] for kind, each in uses_of(api, path).items()}


def test_uses_of_an_endpoint_name_each_kind(registered: Api, database: Database) -> None:
    register(registered, "caller", callbacks={"on_failure": "target"})
    nodes = [{"name": "a", "endpoint": "target"}, {"name": "b", "after": ["a"], "endpoint": "target"}]
    definition = {"name": "flow", "type": "WORKFLOW", "spec": {"nodes": nodes}}
    assert registered.post("/endpoints", definition).status_code == 201
    rows.add_rule(database, "sends", "target", endpoint="other-*")
    rows.add_rule(database, "watches", "caller", endpoint="tar*")
    job = created(registered, cron(name="nightly"))
    created(registered, one_shot("waits"))
    workflow = {"name": "w", "nodes": nodes}
    assert registered.post("/workflows", workflow).status_code == 201
    found = uses_of(registered, "/endpoints/target")
    assert {kind: each["count"] for kind, each in found.items()} == {
        "callback": 1,
        "workflow_definition": 1,
        "channel": 1,
        "rule": 1,
        "schedule": 1,
        "workflow_node": 1,  # the other node has started
        "waiting_execution": 2,
    }
    assert found["callback"]["examples"] == [{"id": "caller", "title": None}]
    assert found["workflow_definition"]["examples"] == [{"id": "flow", "title": None}]
    assert found["channel"]["examples"] == [{"id": "sends", "title": None}]
    assert found["rule"]["examples"] == [{"id": "watches", "title": "tar*"}]
    assert found["schedule"]["examples"] == [{"id": job["job_id"], "title": "nightly"}]
    assert [each["title"] for each in found["workflow_node"]["examples"]] == ["b"]
    assert all(each["is_complete"] for each in found.values())


def test_waiting_executions_keep_their_version(registered: Api) -> None:
    created(registered, one_shot("old"))
    created(registered, one_shot("old-too"))
    changed = http_endpoint("target", retry_policy={"max_attempts": 2})
    assert registered.put("/endpoints/target", changed).status_code == 200
    created(registered, one_shot("new"))
    assert registered.get("/endpoints/target/uses").json["waiting"] == [
        {"version": 2, "count": 1},
        {"version": 1, "count": 2},
    ]


@pytest.mark.parametrize("path", ["/payload-specs/spec", "/configs/config", "/secrets/token"])
def test_uses_of_a_value_follow_the_versions_that_name_it(api: Api, database: Database, path: str) -> None:
    register_all(api)
    created(api, one_shot("old"))
    created(api, cron())
    (running,) = rows.add_executions(database)
    job_id = api.get(f"/executions/{running}").json["job_id"]
    rows.set_status(database, job_id, "RUNNING")
    assert counts(api, path) == {"endpoint": 1, "schedule": 1, "waiting_execution": 1, "running_execution": 1}
    register(api, "unrelated")
    assert api.put("/endpoints/target", http_endpoint("target")).status_code == 200
    created(api, one_shot("new"))
    created(api, cron())
    assert counts(api, path) == {"schedule": 1, "waiting_execution": 1, "running_execution": 1}


def test_unused_value_has_no_uses(api: Api) -> None:
    assert api.post("/configs", {"name": "unused", "values": {}}).status_code == 201
    answer = api.get("/configs/unused/uses").json
    assert [each["kind"] for each in answer["uses"]] == list(uses.OF_VALUE_KINDS)
    assert counts(api, "/configs/unused") == {}


def test_retired_job_and_deleted_endpoint_are_no_uses(api: Api) -> None:
    register_all(api)
    job = created(api, cron())
    assert api.post(f"/jobs/{job['job_id']}/cancel").status_code == 200
    assert counts(api, "/endpoints/target") == {}
    assert api.delete("/endpoints/target").status_code == 204
    assert counts(api, "/configs/config") == {}
    problem(api.get("/endpoints/target/uses"), 404, "ENDPOINT_NOT_FOUND")


@each_case(
    ("path", "code"),
    [
        ("/endpoints/nope", "ENDPOINT_NOT_FOUND"),
        ("/payload-specs/nope", "PAYLOAD_SPEC_NOT_FOUND"),
        ("/configs/nope", "CONFIG_NOT_FOUND"),
        ("/secrets/nope", "SECRET_NOT_FOUND"),
    ],
)
def test_uses_of_an_absent_resource_are_not_found(api: Api, path: str, code: str) -> None:
    problem(api.get(f"{path}/uses"), 404, code)


def test_key_without_read_is_refused(registered: Api, database: Database) -> None:
    sender = Api(registered.app, api_keys.create(database, "other", [Scope.JOBS_SEND], None))
    problem(sender.get("/endpoints/target/uses"), 403, "FORBIDDEN")
