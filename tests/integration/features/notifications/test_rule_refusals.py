"""Refusals of notification rules, of their form and of their commands, and the key of a test message."""

from typing import Any

from flask import Flask

from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.cases import each_case
from tests.integration.client import Api, problem
from tests.integration.command_line import Cli
from tests.integration.console.visitor import Visitor
from tests.integration.registered import created, http_endpoint, one_shot, register

RULE = {"name": "r", "channels": ["c"], "all": True}
DEEP = "[" * 3000 + "]" * 3000


@each_case(
    ("events", "message"),
    [
        ("job.fail", "/events/0: Unknown event. Did you mean 'job.failing'?"),
        ("test", "/events/0: Must be one of: execution.failed, "),
    ],
)
def test_message_names_the_remedy(shared_api: Api, events: str, message: str) -> None:
    answer: dict[str, Any] = shared_api.post("/notification-rules", RULE | {"events": [events]}).json
    assert message in answer["error"]["message"]


def test_similar_endpoint_is_suggested_for_a_channel(shared_api: Api) -> None:
    shared_api.post("/endpoints", http_endpoint(name="welcome"))
    error = shared_api.post("/notification-rules", RULE | {"events": ["job.failing"], "channels": ["welcom"]}).json[
        "error"
    ]
    message = "There is no endpoint named 'welcom'. Did you mean 'welcome'?"
    assert error["details"] == [{"pointer": "/channels/0", "message": message}]


def test_scope_allows_its_operations_only(app: Flask, database: Database) -> None:
    reader = Api(app, api_keys.create(database, "reader", [Scope.READ], None))
    writer = Api(app, api_keys.create(database, "writer", [Scope.JOBS_WRITE], None))
    assert reader.get("/notification-rules").status_code == 200
    problem(writer.get("/notification-rules"), 403, "FORBIDDEN")
    for method, path in (("POST", ""), ("PUT", "/x"), ("DELETE", "/x")):
        problem(reader.send(method, f"/notification-rules{path}"), 403, "FORBIDDEN")
        problem(writer.send(method, f"/notification-rules{path}"), 403, "FORBIDDEN")


def test_number_that_is_not_finite_is_refused(cli: Cli) -> None:
    assert "is not a finite number" in cli.run("notifications", "test", "mail", "--wait", "nan", expect=2).stderr


@each_case("value", ["{", DEEP, "[]", '{"a": 1, "a": 2}'], ids=["open", "deep", "list", "twice"])
def test_malformed_json_of_a_form_is_refused(app: Flask, database: Database, value: str) -> None:
    admin = Visitor(app, Scope.ADMIN)
    form = admin.form("/console", "/console/sign-out") | {"once": "k", "rule": value}
    answer = admin.send("/console/do/put/notification-rules/x", form)
    assert answer.status_code == 400
    assert "rule" in answer.get_data(as_text=True)


def test_test_message_is_sent_although_a_client_uses_its_key(api: Api) -> None:
    register(api)
    first = created(api, one_shot("test:k"))
    answer = api.post("/endpoints/target/test", headers={"Idempotency-Key": "k"})
    assert (answer.status_code, answer.json["idempotency_key"]) == (201, "te:test:k")
    assert answer.json["job_id"] != first["job_id"]
    again = api.post("/endpoints/target/test", headers={"Idempotency-Key": "k"})
    assert (again.status_code, again.json["job_id"]) == (200, answer.json["job_id"])
