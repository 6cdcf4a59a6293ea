"""Search: each kind of row by each of its fields."""

from typing import Any

from flask import Flask
from sqlalchemy import text

from app.features.search import store
from app.features.search.hits import HitKind
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from tests import rows
from tests.cases import each_case
from tests.integration.client import Api, pointers, problem
from tests.integration.console.visitor import page_rule
from tests.integration.registered import created, cron, http_endpoint, one_shot, register, register_all
from tests.integration.statements import Statements

CONFIGS = "INSERT INTO configs (name, values_json) SELECT 'a-' || n, '{}' FROM generate_series(1, :many) AS n"
ENDPOINTS = """
    INSERT INTO endpoints (name, endpoint_type, spec)
    SELECT 'a-' || n, 'HTTP', '{"url": "http://a"}' FROM generate_series(1, :many) AS n
"""


def found(api: Api, word: str) -> list[tuple[str, str, str]]:
    response = api.get("/search", q=word)
    assert response.status_code == 200, response.get_data(as_text=True)
    return [(hit["kind"], hit["id"], hit["matched"]) for hit in response.json["items"]]


def test_ids_are_found(registered: Api, database: Database) -> None:
    job = created(registered, one_shot("k"))
    execution = job["execution"]["execution_id"]
    rows.add_attempt(database, execution, 1, "FAILED")
    (attempt,) = (each["attempt_id"] for each in registered.get(f"/executions/{execution}/attempts").json["items"])
    workflow = registered.post("/workflows", {"name": "w", "nodes": [{"name": "a"}]}).json["workflow_id"]
    letter = f"att_{rows.add_letters(database, 1)[0]}"
    redrive = registered.post("/redrives", {"wanted": {"endpoint": "target"}}).json["redrive_id"]
    body = {"action": "retry", "wanted": {"endpoint": "target"}}
    operation = registered.post("/bulk-operations", body).json["operation_id"]
    assert found(registered, f"  {job['job_id']} ") == [("job", job["job_id"], "id")]
    assert found(registered, execution) == [("execution", execution, "id")]
    assert found(registered, attempt) == [("execution", execution, "id")]
    assert found(registered, workflow) == [("workflow", workflow, "id")]
    assert ("dead_letter", letter, "id") in found(registered, letter)
    assert found(registered, redrive) == [("redrive", redrive, "id")]
    assert found(registered, operation) == [("bulk_operation", operation, "id")]


def test_parts_of_names_of_the_catalog_are_found(api: Api) -> None:
    register_all(api)
    register(api, "retarget")
    rule = {"name": "target-fails", "events": ["execution.failed"], "channels": ["retarget"], "endpoint": "target"}
    assert api.post("/notification-rules", rule).status_code == 201
    assert found(api, "TARGET") == [  # the whole match comes first
        ("endpoint", "target", "name"),
        ("endpoint", "retarget", "name"),
        ("notification_rule", "target-fails", "name"),
    ]
    assert found(api, "spe") == [("payload_spec", "spec", "name")]
    assert found(api, "onfi") == [("config", "config", "name"), ("endpoint", "target", "url")]
    assert found(api, "tok") == [("secret", "token", "name")]


def test_whole_name_is_found_behind_all_that_are_read_for_parts_of_names(api: Api, database: Database) -> None:
    register(api, "zulu")
    assert api.post("/configs", {"name": "zulu", "values": {}}).status_code == 201
    many = {"many": store.MAX_READ}
    database.fetch(text(f"{CONFIGS} RETURNING 1"), many)
    database.fetch(text(f"{ENDPOINTS} RETURNING 1"), many)
    for word in ("zulu", "Zulu"):
        assert found(api, word) == [("endpoint", "zulu", "name"), ("config", "zulu", "name")]
    assert found(api, "zul") == []


def test_hosts_and_targets_are_found(api: Api, database: Database) -> None:
    register(api, "pays", spec=http_endpoint()["spec"] | {"url": "https://api.Pay.example/charge"})
    assert found(api, "pay.example") == [("endpoint", "pays", "url")]
    database.fetch(text("INSERT INTO breakers (target, watched_until) VALUES ('https:api.pay.example:443', now())"))
    assert ("breaker", "https:api.pay.example:443", "target") in found(api, "pay.example")
    worker_lease.register(
        database, worker_id="wrk_1", host="node-a", pid=1, queues=["http"], capacity=1, lease_ms=60_000
    )
    assert found(api, "NODE-") == [("worker", "wrk_1", "host")]
    assert found(api, "wrk_1") == [("worker", "wrk_1", "id")]


def test_names_and_keys_of_jobs_and_workflows_are_found(registered: Api) -> None:
    report = created(registered, one_shot("order-81", name="Weekly Report"))["job_id"]
    schedule = created(registered, cron(name="Nightly Report"))["job_id"]
    flow = {"name": "Report flow", "idempotency_key": "order-82", "nodes": [{"name": "a"}]}
    workflow = registered.post("/workflows", flow).json["workflow_id"]
    assert found(registered, "report") == [("schedule", schedule, "name"), ("workflow", workflow, "name")]
    assert found(registered, "Weekly Report") == [("job", report, "name")]
    assert found(registered, "order-81") == [("job", report, "key")]
    assert found(registered, "order-82") == [("workflow", workflow, "key")]
    assert found(registered, "order-8") == []


def test_key_of_an_inline_endpoint_is_found(api: Api) -> None:
    job = created(api, {"url": "http://127.0.0.1:9/", "body": {}, "idempotency_key": "mine"})
    assert found(api, "mine") == [("job", job["job_id"], "key")]
    assert found(api, "inline") == []


def test_labels_are_found(registered: Api) -> None:
    labels = {"team": "billing", "env": "prod"}
    job = created(registered, one_shot("k", labels=labels))["job_id"]
    created(registered, one_shot("other", labels={"team": "growth"}))
    flow = {"name": "w", "labels": labels, "nodes": [{"name": "a"}]}
    workflow = registered.post("/workflows", flow).json["workflow_id"]
    assert {*found(registered, "team=billing")} == {("job", job, "label"), ("workflow", workflow, "label")}
    assert found(registered, "team=none") == []


@each_case("word", ["%", "_", "\\", "'", "=", "a=", "=b", "{", "x" * 200, "\u202e\u00e9\U0001f600"])
def test_word_is_compared_as_text(registered: Api, word: str) -> None:
    created(registered, cron(name="Nightly"))
    assert found(registered, word) == []


def test_hits_of_a_kind_are_bounded(registered: Api) -> None:
    for number in range(store.MAX_HITS + 3):
        register(registered, f"many-{number}")
        created(registered, one_shot(f"k-{number}", name="same"))
    assert len(found(registered, "many")) == store.MAX_HITS
    assert len(found(registered, "same")) == store.MAX_HITS


def test_search_runs_few_statements(registered: Api, statements: Statements) -> None:
    found(registered, "nothing")
    statements.clear()
    found(registered, "nothing")
    assert len(statements.texts) == 6


@each_case("query", [{}, {"q": ""}, {"q": "   "}, {"q": "x" * 201}])
def test_unusable_word_is_refused(api: Api, query: dict[str, Any]) -> None:
    assert pointers(problem(api.get("/search", **query), 400, "INVALID_REQUEST")) == ["q"]


def test_key_without_read_is_refused(api: Api, database: Database) -> None:
    sender = Api(api.app, api_keys.create(database, "other", [Scope.JOBS_SEND], None))
    problem(sender.get("/search", q="x"), 403, "FORBIDDEN")


@each_case("kind", HitKind)
def test_each_kind_of_hit_has_a_page(app: Flask, kind: HitKind) -> None:
    assert "<path:" not in page_rule(app, kind)
