"""Endpoints: registration, versions, deletion and revival."""

import json
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from tests.integration.client import Api, pointers, problem
from tests.integration.registered import created, cron, http_endpoint, one_shot, register, register_all

KAFKA = {
    "name": "kafka",
    "type": "KAFKA",
    "config": "order-events",
    "spec": {
        "bootstrap_servers": "{{config.bootstrap_servers}}",
        "topic": "{{config.topic}}",
        "key_template": "{{input.order_id}}",
        "value_template": {"order_id": "{{input.order_id}}", "amount": "{{input.amount}}"},
        "headers": {"ce-type": "order.{{input.event_type}}", "ce-source": "task-executor"},
        "acks": "all",
        "timeout_ms": 10000,
    },
    "retry_policy": {"max_attempts": 5, "backoff": "exponential", "initial_delay_ms": 500, "max_delay_ms": 15000},
}
REDIS = {
    "name": "redis",
    "type": "REDIS_STREAM",
    "config": "notification-stream",
    "spec": {
        "redis_url": "{{config.redis_url}}",
        "stream": "{{config.stream_name}}",
        "fields_template": {"user_id": "{{input.user_id}}"},
        "max_len": "{{config.max_stream_length}}",
        "approximate_trimming": True,
        "timeout_ms": 3000,
    },
}
CONFIGS = {
    "order-events": {"bootstrap_servers": "kafka-1:9092,kafka-2:9092", "topic": "order.events.v1"},
    "notification-stream": {
        "redis_url": "redis://redis-cluster:6379",
        "stream_name": "notifications:outbound",
        "max_stream_length": 100000,
    },
}


def without_name(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != "name"}


@pytest.mark.parametrize("body", [KAFKA, REDIS], ids=["kafka", "redis"])
def test_endpoint_of_each_transport_is_registered(api: Api, body: dict[str, Any]) -> None:
    for name, values in CONFIGS.items():
        assert api.post("/configs", {"name": name, "values": values}).status_code == 201
    response = api.post("/endpoints", body)
    assert response.status_code == 201, response.get_data(as_text=True)
    for field in ("name", "type", "config", "spec"):
        assert response.json[field] == body[field]
    assert api.get(f"/endpoints/{body['name']}").json == response.json


def test_answer_has_the_defaults_of_the_retry_policy(api: Api) -> None:
    default = {"max_attempts": 1, "backoff": "exponential", "initial_delay_ms": 1000, "max_delay_ms": 60000}
    register(api)
    assert api.get("/endpoints/target").json["retry_policy"] == default
    register(api, "other", retry_policy={"max_attempts": 7})
    assert api.get("/endpoints/other").json["retry_policy"] == default | {"max_attempts": 7}
    added = {"backoff": "custom", "delays_ms": [5, 500], "fail_on": [401, "TIMEOUT"], "max_age_ms": 60000}
    register(api, "third", retry_policy=added)
    shown = api.get("/endpoints/third").json["retry_policy"]
    assert shown == default | added
    assert api.put("/endpoints/third", http_endpoint("third", retry_policy=shown)).json["retry_policy"] == shown


def test_keep_response_belongs_to_the_version(api: Api, database: Database) -> None:
    assert api.post("/endpoints", http_endpoint(keep_response="never")).json["keep_response"] == "never"
    assert api.get("/endpoints/target").json["keep_response"] == "never"
    for body, kept in ({"keep_response": "on_error"}, "on_error"), ({}, "always"):
        assert api.put("/endpoints/target", without_name(http_endpoint(**body))).json["keep_response"] == kept
    assert [version.keep_response for version in versions(database).values()] == ["never", "on_error", "always"]
    refused = api.put("/endpoints/target", without_name(http_endpoint(keep_response="sometimes")))
    assert pointers(problem(refused, 400, "INVALID_REQUEST")) == ["/keep_response"]
    assert "never" in refused.get_data(as_text=True)


def test_duplicate_name_is_409(api: Api) -> None:
    register(api)
    problem(api.post("/endpoints", http_endpoint()), 409, "CONFLICT")


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"payload_spec": "nope"}, "INVALID_PAYLOAD_SPEC_REF", "/payload_spec"),
        ({"config": "nope"}, "INVALID_CONFIG_REF", "/config"),
        ({"spec": {"url": "{{secret.nope}}", "method": "GET"}}, "TEMPLATE_RESOLUTION_FAILED", "/spec/url"),
        ({"spec": {"url": "{{config.base}}", "method": "GET"}}, "TEMPLATE_RESOLUTION_FAILED", "/spec/url"),
    ],
)
def test_reference_to_a_missing_resource_is_422(api: Api, changes: dict[str, Any], code: str, pointer: str) -> None:
    assert pointers(problem(api.post("/endpoints", http_endpoint(**changes)), 422, code)) == [pointer]
    register(api)
    body = without_name(http_endpoint(**changes))
    assert pointers(problem(api.put("/endpoints/target", body), 422, code)) == [pointer]
    assert api.get("/endpoints/target").json["version"] == 1


def versions(database: Database) -> dict[int, Any]:
    rows = database.fetch(text("SELECT * FROM endpoint_versions WHERE endpoint = 'target' ORDER BY version"))
    return {row.version: row for row in rows}


def test_each_change_creates_a_version_and_jobs_keep_their_version(api: Api, database: Database) -> None:
    register_all(api)
    before = created(api, one_shot("before"))
    ticking = created(api, cron())
    body = without_name(http_endpoint(retry_policy={"max_attempts": 9}))
    assert api.put("/endpoints/target", body).json["version"] == 2
    after = created(api, one_shot("after"))

    stored = versions(database)
    assert list(stored) == [1, 2]
    assert (stored[1].payload_spec_ref, stored[1].config_ref, stored[1].secret_refs) == ("spec", "config", ["token"])
    assert (stored[2].payload_spec_ref, stored[2].config_ref, stored[2].secret_refs) == (None, None, [])
    assert stored[2].spec == body["spec"]
    assert stored[2].retry_policy == {"max_attempts": 9}

    assert [job["endpoint_version"] for job in (before, ticking, after)] == [1, 1, 2]
    rows = database.fetch(
        text(
            "SELECT j.endpoint_version, e.endpoint_version AS of_execution, j.max_attempts, e.max_attempts AS tries "
            "FROM jobs j JOIN executions e ON e.job_id = j.job_id ORDER BY j.created_at"
        )
    )
    assert [tuple(row) for row in rows] == [(1, 1, 1, 1), (2, 2, 9, 9)]


def test_type_may_change_with_a_version(api: Api) -> None:
    register(api)
    spec = {"redis_url": "redis://127.0.0.1:9", "stream": "s", "fields_template": {"a": "b"}}
    assert api.put("/endpoints/target", {"type": "REDIS_STREAM", "spec": spec}).status_code == 200
    assert created(api, one_shot("k"))["endpoint_type"] == "REDIS_STREAM"


@pytest.mark.parametrize("job", [one_shot("k"), cron()], ids=["execution", "cron job"])
def test_endpoint_with_unfinished_work_is_not_deleted(api: Api, job: dict[str, Any]) -> None:
    register(api)
    made = created(api, job)
    error = problem(api.delete("/endpoints/target"), 409, "CONFLICT")
    needed = made.get("execution", made).get("execution_id", made["job_id"])
    assert needed in error["details"][0]["message"]
    api.post(f"/jobs/{made['job_id']}/cancel")
    assert api.delete("/endpoints/target").status_code == 204


def test_deleted_endpoint_is_not_found_but_its_jobs_are(api: Api, database: Database) -> None:
    register_all(api)
    job = created(api, one_shot("k"))
    api.post(f"/jobs/{job['job_id']}/cancel")
    assert api.delete("/endpoints/target").status_code == 204
    problem(api.get("/endpoints/target"), 404, "ENDPOINT_NOT_FOUND")
    problem(api.put("/endpoints/target", without_name(http_endpoint())), 404, "ENDPOINT_NOT_FOUND")
    problem(api.delete("/endpoints/target"), 404, "ENDPOINT_NOT_FOUND")
    problem(api.post("/jobs", one_shot("k2")), 404, "ENDPOINT_NOT_FOUND")
    problem(api.post("/jobs", cron()), 404, "ENDPOINT_NOT_FOUND")
    assert api.get("/endpoints").json["items"] == []
    assert api.get(f"/jobs/{job['job_id']}").json["status"] == "RETIRED"
    assert api.get("/jobs", endpoint="target").json["items"] != []
    row = database.fetch(text("SELECT payload_spec_ref, config_ref, deleted_at FROM endpoints"))[0]
    assert (row.payload_spec_ref, row.config_ref) == (None, None)
    assert row.deleted_at is not None


def test_endpoint_registered_again_gets_the_next_version(api: Api, database: Database) -> None:
    register_all(api)
    first = api.get("/endpoints/target").json
    assert api.delete("/endpoints/target").status_code == 204
    register(api)
    second = api.get("/endpoints/target").json
    assert second["version"] == 2
    assert second["created_at"] > first["created_at"]
    assert second["payload_spec"] is None
    assert list(versions(database)) == [1, 2]
    assert created(api, one_shot("k"))["endpoint_version"] == 2


def test_versions_contain_no_secret_values(api: Api, database: Database) -> None:
    register_all(api)
    rows = database.fetch(text("SELECT CAST(row_to_json(v) AS TEXT) AS row FROM endpoint_versions v"))
    assert "s3cret" not in json.dumps([row.row for row in rows])
