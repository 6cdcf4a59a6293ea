"""Jobs with a URL instead of an endpoint."""

from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text

from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.config import Settings
from app.kernel.db import Database
from schema.inline_bounds import INLINE_PREFIX
from tests.cases import each_case
from tests.inline_definitions import FAULTS, LATE_FAULTS, URL
from tests.integration.client import Api, administrator, pointers, problem, running
from tests.integration.registered import created, one_shot, register


def endpoints(api: Api, **query: Any) -> list[str]:
    return [each["name"] for each in api.get("/endpoints", **query).json["items"]]


def test_one_call_creates_a_job_and_its_endpoint(api: Api) -> None:
    job = created(api, {"url": URL, "body": {"user": "u_1"}, "delay": "10m"})
    assert (job["trigger"], job["input"], job["endpoint"][:7]) == ("DELAYED", {"body": {"user": "u_1"}}, INLINE_PREFIX)
    assert job["execution"]["status"] == "PENDING"
    endpoint = api.get(f"/endpoints/{job['endpoint']}").json
    assert endpoint["spec"] == {
        "url": URL,
        "method": "POST",
        "headers": {},
        "body_template": "{{input.body}}",
        "timeout_ms": 30000,
        "expected_status_codes": [200, 201, 202, 204],
    }
    (entry,) = [each for each in api.get("/audit").json["items"] if each["resource"] == job["endpoint"]]
    assert (entry["action"], entry["actor_name"]) == ("create", "test")


def test_equal_definitions_share_an_endpoint(api: Api) -> None:
    first = created(api, {"url": URL, "body": 1})
    for same in (
        {"body": [2]},
        {"body": "x", "method": "POST", "headers": {}},
        {"body": 3, "run_at": "2090-01-01T00:00:00Z"},
    ):
        assert created(api, {"url": URL} | same)["endpoint"] == first["endpoint"]
    others = (
        *({}, {"body": 1, "method": "PUT"}, {"body": 1, "timeout_ms": 5000}, {"body": 1, "headers": {"X-A": "b"}}),
        {"body": 1, "retry_policy": {"max_attempts": 5}},
    )
    names = {created(api, {"url": URL} | other)["endpoint"] for other in others}
    assert len(names | {first["endpoint"]}) == 6


@each_case(
    ("fields", "trigger"),
    [
        ({}, "IMMEDIATE"),
        ({"run_at": "2090-01-01T00:00:00Z"}, "DELAYED"),
        ({"delay": 0}, "DELAYED"),
        ({"every": "5m"}, "INTERVAL"),
        ({"cron": "0 9 * * *", "timezone": "UTC"}, "CRON"),
    ],
)
def test_fields_decide_the_trigger(api: Api, fields: dict[str, Any], trigger: str) -> None:
    assert created(api, {"url": URL} | fields)["trigger"] == trigger


def test_key_makes_a_request_repeatable(api: Api) -> None:
    body = {"url": URL, "body": 1}
    assert created(api, body)["job_id"] != created(api, body)["job_id"]
    first = created(api, body | {"idempotency_key": "k"})
    again = api.post("/jobs", body | {"idempotency_key": "k"})
    assert (again.status_code, again.json["job_id"]) == (200, first["job_id"])


def test_batch_takes_urls(api: Api) -> None:
    register(api)
    jobs = [{"url": URL, "body": 1}, {"url": URL, "body": 2}, one_shot("named"), {"url": "ftp://x"}]
    items = api.post("/jobs/batch", {"jobs": jobs}).json["items"]
    assert [item["status"] for item in items] == [201, 201, 201, 400]
    assert items[0]["job"]["endpoint"] == items[1]["job"]["endpoint"]


# Faults of the job.
JOB_FAULTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"method": "TRACE", "timeout_ms": 0, "delay": -1}, ["/method", "/timeout_ms", "/delay"]),
    ({"endpoint": "target", "input": {}}, ["/endpoint", "/input"]),
    ({"run_at": "2090-01-01T00:00:00Z", "delay": "1m"}, ["/delay"]),
    ({"unknown": 1}, ["/unknown"]),
]


def test_faults_name_their_fields(api: Api) -> None:
    for fields, at in (*JOB_FAULTS, *FAULTS):
        error = problem(api.post("/jobs", {"url": URL} | fields), 400, "INVALID_REQUEST")
        assert sorted(pointers(error)) == sorted(at)
    for fields, at in LATE_FAULTS:
        assert pointers(api.post("/jobs", {"url": URL} | fields).json["error"]) == at
    assert endpoints(api, inline="true") == []


def test_secret_of_a_signature_must_exist(api: Api) -> None:
    body = {"url": URL, "signing": {"secret": "{{secret.hook}}"}}
    error = problem(api.post("/jobs", body), 422, "TEMPLATE_RESOLUTION_FAILED")
    assert pointers(error) == ["/signing/secret"]
    assert "/spec" not in error["message"]
    api.post("/secrets", {"name": "hook", "value": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})
    created(api, body)


def test_fields_of_a_url_need_a_url(api: Api) -> None:
    register(api)
    error = problem(api.post("/jobs", one_shot("k", body=1, method="PUT")), 400, "INVALID_REQUEST")
    assert sorted(pointers(error)) == ["/body", "/method"]


def test_inline_endpoints_are_listed_apart_and_never_change(api: Api) -> None:
    register(api)
    name = created(api, {"url": URL})["endpoint"]
    assert endpoints(api) == ["target"]
    assert endpoints(api, inline="true") == [name]
    changed = {"type": "HTTP", "spec": {"url": "https://other.example"}}
    problem(api.put(f"/endpoints/{name}", changed), 409, "CONFLICT")
    problem(api.post("/endpoints", changed | {"name": name}), 400, "INVALID_REQUEST")
    limited = api.send("PATCH", f"/endpoints/{name}", json={"limits": {"max_in_flight": 2}})
    assert limited.json["limits"] == {"max_in_flight": 2}


def test_url_needs_its_own_scope(app: Flask, api: Api, database: Database) -> None:
    register(api)
    sender, writer = (Api(app, api_keys.create(database, s, [s], None)) for s in (Scope.JOBS_SEND, Scope.JOBS_WRITE))
    created(sender, {"url": URL})
    created(writer, one_shot("k"))
    problem(sender.post("/jobs", one_shot("l")), 403, "FORBIDDEN")
    problem(writer.post("/jobs", {"url": URL}), 403, "FORBIDDEN")
    problem(sender.get("/jobs"), 403, "FORBIDDEN")
    problem(sender.post("/jobs/job_1/cancel"), 403, "FORBIDDEN")
    calling = {"url": URL, "callbacks": {"on_success": "target"}}
    problem(sender.post("/jobs", calling), 403, "FORBIDDEN")
    problem(sender.post("/jobs", calling | {"callbacks": {"on_success": "missing"}}), 403, "FORBIDDEN")
    assert sender.post("/jobs/batch", {"jobs": [calling]}).json["items"][0]["status"] == 403
    created(api, calling)
    both = {"jobs": [{"url": URL}, one_shot("m")]}
    assert [item["status"] for item in sender.post("/jobs/batch", both).json["items"]] == [201, 403]
    assert [item["status"] for item in writer.post("/jobs/batch", both).json["items"]] == [403, 201]


@pytest.mark.parametrize(("maximum", "status"), [(0, 403), (1, 409)])
def test_number_of_inline_endpoints_is_bounded(database_url: str, maximum: int, status: int) -> None:
    with running(Settings(database_url=database_url, max_inline_endpoints=maximum)) as app:
        api = administrator(app)
        for _ in range(2 * maximum):
            created(api, {"url": URL})
        response = api.post("/jobs", {"url": "https://other.example"})
        assert response.status_code == status
        assert "TE_MAX_INLINE_ENDPOINTS" in response.json["error"]["message"]


def test_existing_inline_endpoints_take_no_jobs_while_they_are_off(api: Api, database_url: str) -> None:
    first = created(api, {"url": URL, "idempotency_key": "k"})
    with running(Settings(database_url=database_url, max_inline_endpoints=0)) as app:
        off = administrator(app)
        problem(off.post("/jobs", {"url": URL}), 403, "FORBIDDEN")
        assert off.post("/jobs/batch", {"jobs": [{"url": URL}]}).json["items"][0]["status"] == 403
        assert off.post("/jobs", {"url": URL, "idempotency_key": "k"}).json["job_id"] == first["job_id"]


def test_deleted_inline_endpoint_comes_back(api: Api, database: Database) -> None:
    name = created(api, {"url": URL})["endpoint"]
    for table, column in (
        ("executions", "endpoint"),
        ("jobs", "endpoint"),
        ("endpoint_versions", "endpoint"),
        ("endpoints", "name"),
    ):
        database.fetch(text(f"DELETE FROM {table} WHERE {column} = :name RETURNING {column}"), {"name": name})
    assert created(api, {"url": URL})["endpoint"] == name
