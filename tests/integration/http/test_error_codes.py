"""Every error code of the contract, with a request that causes it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import text
from werkzeug.test import TestResponse

from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from tests.cases import each_case
from tests.integration.client import Api, pointers, problem, running, services
from tests.integration.http import document
from tests.integration.registered import created, cron, http_endpoint, one_shot, register_all

SECRET = "s3cret"  # stored by `register_all`


@dataclass(frozen=True, slots=True)
class Stock:
    """Service with a catalog, a cron job and a running one-shot job."""

    api: Api
    cron_job: str
    one_shot_job: str
    execution: str


@pytest.fixture
def stock(api: Api, database: Database) -> Stock:
    register_all(api)
    job = created(api, one_shot("running"))
    database.fetch(
        text("UPDATE executions SET status = 'RUNNING', worker_id = 'wrk_1', started_at = now(), attempt_count = 1")
    )
    return Stock(api, created(api, cron())["job_id"], job["job_id"], job["execution"]["execution_id"])


def break_a_table(stock: Stock) -> TestResponse:
    database = services(stock.api.app).database
    database.fetch(text("ALTER TABLE configs RENAME COLUMN values_json TO moved"))
    response = stock.api.get("/configs/config")
    database.fetch(text("ALTER TABLE configs RENAME COLUMN moved TO values_json"))
    return response


def expire_result(stock: Stock) -> TestResponse:
    database = services(stock.api.app).database
    completed = "status = 'SUCCESS', completed_at = now(), result_retention_ms = 60000, result_pruned_at = now()"
    database.fetch(text(f"UPDATE executions SET {completed}"))
    response = stock.api.get(f"/executions/{stock.execution}/result")
    database.fetch(text("UPDATE executions SET status = 'RUNNING', completed_at = NULL, result_pruned_at = NULL"))
    return response


def exceed_rate_limit(stock: Stock) -> TestResponse:
    own = services(stock.api.app).settings
    settings = Settings(database_url=own.database_url, db_pool_size=2, rate_limit="1/hour")
    with running(settings) as app:
        limited = Api(app, stock.api.key)
        assert limited.get("/jobs").status_code == 200
        return limited.get("/jobs")


def endpoint(**changes: Any) -> Callable[[Stock], TestResponse]:
    return lambda stock: stock.api.post("/endpoints", http_endpoint("other", **changes))


def job(**changes: Any) -> Callable[[Stock], TestResponse]:
    return lambda stock: stock.api.post("/jobs", one_shot("new") | changes)


def rule(**changes: Any) -> Callable[[Stock], TestResponse]:
    body = {"name": "r", "events": ["execution.failed"], "channels": ["target"]} | changes
    return lambda stock: stock.api.post("/notification-rules", body)


def get(path: str) -> Callable[[Stock], TestResponse]:
    return lambda stock: stock.api.get(path)


def workflow(*nodes: dict[str, Any]) -> Callable[[Stock], TestResponse]:
    return lambda stock: stock.api.post("/workflows", {"name": "w", "nodes": nodes})


def get_unknown_node(stock: Stock) -> TestResponse:
    created_workflow = workflow({"name": "a"})(stock).json
    return stock.api.get(f"/workflows/{created_workflow['workflow_id']}/nodes/nope")


def cancel_one_shot(stock: Stock) -> TestResponse:
    return stock.api.post(f"/jobs/{stock.one_shot_job}/cancel")


def drain_dead_worker(stock: Stock) -> TestResponse:
    database = services(stock.api.app).database
    worker_lease.register(database, worker_id="w", host="h", pid=1, queues=["http"], capacity=1, lease_ms=0)
    return stock.api.post("/workers/w/drain")


def reader(stock: Stock) -> Api:
    return Api(stock.api.app, api_keys.create(services(stock.api.app).database, "reader", [Scope.READ], None))


def change_with_stale_tag(stock: Stock) -> TestResponse:
    return stock.api.send("PUT", "/configs/config", json={"values": {}}, headers={"If-Match": '"stale"'})


def reuse_a_key(stock: Stock) -> TestResponse:
    headers = {"Idempotency-Key": "k"}
    assert stock.api.post("/configs", {"name": "one", "values": {}}, headers=headers).status_code == 201
    return stock.api.post("/configs", {"name": "two", "values": {}}, headers=headers)


def without_database(_stock: Stock) -> TestResponse:
    with running(Settings(database_url="postgresql://nobody@127.0.0.1:1/none")) as app:
        return Api(app, "te_a_b").get("/jobs")


def wait_too_long(stock: Stock) -> TestResponse:
    own = services(stock.api.app).settings
    # The wait for the lock ends shortly after the request's deadline, not after the default of five seconds.
    url = f"{own.database_url}?options=-c%20lock_timeout%3D600"
    settings = Settings(database_url=url, db_pool_size=2, request_timeout_seconds=0.5)
    with running(settings) as app, services(stock.api.app).database.engine.begin() as other:
        other.execute(text("SELECT 1 FROM jobs WHERE job_id = :id FOR UPDATE"), {"id": stock.cron_job})
        return Api(app, stock.api.key).post(f"/jobs/{stock.cron_job}/cancel")


CONFIG_TEMPLATE = {"url": "{{config.nope}}", "method": "POST"}
UNKNOWN_SECRET = {"url": "http://127.0.0.1:9/", "method": "POST", "headers": {"A": "{{secret.nope}}"}}
# Code, status, function that sends a request which causes the code, pointers of the faults.
CODES: list[tuple[str, int, Callable[[Stock], TestResponse], list[str]]] = [
    ("INVALID_REQUEST", 400, job(trigger="SOON"), ["/trigger"]),
    ("UNAUTHORIZED", 401, lambda stock: Api(stock.api.app, "te_0_0").get("/jobs"), []),
    ("PAYLOAD_SPEC_NOT_FOUND", 404, get("/payload-specs/nope"), []),
    ("CONFIG_NOT_FOUND", 404, get("/configs/nope"), []),
    ("NOTIFICATION_RULE_NOT_FOUND", 404, get("/notification-rules/nope"), []),
    ("SECRET_NOT_FOUND", 404, get("/secrets/nope"), []),
    ("ENDPOINT_NOT_FOUND", 404, get("/endpoints/nope"), []),
    ("ENDPOINT_NOT_FOUND", 404, job(endpoint="nope"), ["/endpoint"]),
    ("ENDPOINT_VERSION_NOT_FOUND", 404, get("/endpoints/target/versions/9"), []),
    ("JOB_NOT_FOUND", 404, get("/jobs/job_nope"), []),
    ("EXECUTION_NOT_FOUND", 404, get("/executions/exec_nope"), []),
    ("WORKER_NOT_FOUND", 404, get("/workers/nope"), []),
    ("WORKER_NOT_ALIVE", 409, drain_dead_worker, []),
    ("EVENTS_EXPIRED", 410, lambda stock: stock.api.get("/events", after="1"), []),
    ("RESULT_EXPIRED", 410, expire_result, []),
    ("QUEUE_NOT_FOUND", 404, lambda stock: stock.api.post("/queues/nope/pause"), []),
    ("DEAD_LETTER_NOT_FOUND", 404, get("/dead-letters/att_nope"), []),
    ("REDRIVE_NOT_FOUND", 404, get("/redrives/rdr_nope"), []),
    ("BULK_OPERATION_NOT_FOUND", 404, get("/bulk-operations/bop_nope"), []),
    ("WORKFLOW_NOT_FOUND", 404, get("/workflows/wf_nope"), []),
    ("WORKFLOW_NODE_NOT_FOUND", 404, get_unknown_node, []),
    ("ACTOR_NOT_FOUND", 404, get("/actors/nobody"), []),
    ("BREAKER_NOT_FOUND", 404, get("/breakers/http:nowhere:80"), []),
    ("CONFLICT", 409, lambda stock: stock.api.delete("/configs/config"), None),
    ("CONFLICT", 409, lambda stock: stock.api.delete("/endpoints/target"), None),
    (
        "JOB_NOT_UPDATABLE",
        409,
        lambda stock: stock.api.put(f"/jobs/{stock.one_shot_job}", {"cron": "@daily", "timezone": "UTC"}),
        [],
    ),
    ("EXECUTION_NOT_CANCELLABLE", 409, lambda stock: stock.api.post(f"/executions/{stock.execution}/cancel"), []),
    ("EXECUTION_NOT_CANCELLABLE", 409, cancel_one_shot, []),
    ("INVALID_CRON", 422, lambda stock: stock.api.post("/jobs", cron(cron="0 0 L * *")), ["/cron"]),
    (
        "INVALID_SCHEMA",
        422,
        lambda stock: stock.api.post("/payload-specs", {"name": "x", "schema": {"type": "nope"}}),
        ["/schema/type"],
    ),
    ("INVALID_PAYLOAD_SPEC_REF", 422, endpoint(payload_spec="nope"), ["/payload_spec"]),
    ("INVALID_CONFIG_REF", 422, endpoint(config="nope"), ["/config"]),
    ("INVALID_CALLBACK", 422, endpoint(callbacks={"on_failure": "nope"}), ["/callbacks/on_failure"]),
    ("INVALID_NOTIFICATION_RULE", 422, rule(), [""]),
    ("INVALID_NOTIFICATION_RULE", 422, rule(channels=["target", "nope"], all=True), ["/channels/0", "/channels/1"]),
    ("INVALID_WORKFLOW", 422, workflow({"name": "a", "endpoint": "nope"}), ["/nodes/0/endpoint"]),
    ("WORKFLOW_CYCLE", 422, workflow({"name": "a", "after": ["a"]}), ["/nodes/0/after/0"]),
    ("INPUT_VALIDATION_FAILED", 422, job(input={"user_id": 7}), ["/input/user_id"]),
    ("IDEMPOTENCY_KEY_REUSED", 422, reuse_a_key, ["Idempotency-Key"]),
    ("TEMPLATE_RESOLUTION_FAILED", 422, endpoint(config="config", spec=CONFIG_TEMPLATE), ["/spec/url"]),
    ("TEMPLATE_RESOLUTION_FAILED", 422, endpoint(spec=UNKNOWN_SECRET), ["/spec/headers/A"]),
    ("RATE_LIMITED", 429, exceed_rate_limit, []),
    ("INTERNAL_ERROR", 500, break_a_table, []),
    # Codes outside the contract.
    ("FORBIDDEN", 403, lambda stock: reader(stock).delete("/configs/config"), []),
    ("NOT_FOUND", 404, get("/nope"), []),
    ("METHOD_NOT_ALLOWED", 405, lambda stock: stock.api.delete("/jobs"), []),
    ("PRECONDITION_FAILED", 412, change_with_stale_tag, []),
    ("PAYLOAD_TOO_LARGE", 413, job(input={"user_id": "x" * 2_000_000}), []),
    ("UNSUPPORTED_MEDIA_TYPE", 415, lambda stock: stock.api.send("POST", "/jobs", data="endpoint=target"), []),
    ("SERVICE_UNAVAILABLE", 503, without_database, []),
    ("GATEWAY_TIMEOUT", 504, wait_too_long, []),
]


def documented_codes() -> Iterator[str]:
    for response in document.document()["components"]["responses"].values():
        for media in response["content"].values():
            yield from media["schema"]["allOf"][1]["properties"]["error"]["properties"]["code"]["enum"]


# A removed feature takes its codes with it. No operation has the codes of unknown paths and methods.
KNOWN = {*documented_codes(), "NOT_FOUND", "METHOD_NOT_ALLOWED"}
CASES = [case for case in CODES if case[0] in KNOWN]


@each_case(("code", "status", "cause", "expected_pointers"), CASES, ids=[code for code, *_ in CASES])
def test_cause_gives_its_error_code(
    stock: Stock, code: str, status: int, cause: Callable[[Stock], TestResponse], expected_pointers: list[str] | None
) -> None:
    response = cause(stock)
    error = problem(response, status, code)
    assert expected_pointers is None or pointers(error) == expected_pointers
    assert error["retryable"] is (status in {429, 503, 504})
    assert ("Retry-After" in response.headers) is error["retryable"]
    body = response.get_data(as_text=True)
    for hidden in (SECRET, stock.api.key, "Traceback", 'File "', "SELECT", "UPDATE ", "psycopg"):
        assert hidden not in body


def test_every_documented_error_code_has_a_cause() -> None:
    assert set(documented_codes()) <= {code for code, *_ in CODES}


def test_error_does_not_repeat_a_secret(stock: Stock) -> None:
    """Errors repeat neither the submitted value nor a stored value."""
    for body in ({"name": "UPPER", "value": "hush-hush"}, {"name": "x", "value": "hush-hush", "more": "hush-hush"}):
        response = stock.api.post("/secrets", body)
        problem(response, 400, "INVALID_REQUEST")
        assert "hush-hush" not in response.get_data(as_text=True)
    response = stock.api.send("POST", "/secrets", data=json.dumps({"name": "x", "value": "hush-hush"})[:-1] + ",}")
    assert "hush-hush" not in response.get_data(as_text=True)
