"""Idempotency-Key: a repeated request changes nothing and gets the first answer."""

import hashlib
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text

from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests import rows
from tests.cases import each_case
from tests.integration.client import Api, pointers, problem, services
from tests.integration.http.document import document
from tests.integration.idempotency.keyed_requests import REQUESTS, Path, contents, is_replay, send
from tests.integration.registered import created, cron, one_shot, register

# A removed feature takes its operations with it: tests/unit/test_released_api.py misses any other lost operation.
FOUND = {path: request for path, request in REQUESTS.items() if path in document()["paths"]}
EACH = each_case(("path", "body"), FOUND.values(), ids=FOUND)
CONFIG = {"name": "n", "values": {"a": 1, "b": 2}}


def other_client(api: Api) -> Api:
    return Api(api.app, api_keys.create(services(api.app).database, "other", [Scope.ADMIN], None))


def test_every_post_that_changes_something_accepts_an_idempotency_key() -> None:
    posts = {path: operations["post"] for path, operations in document()["paths"].items() if "post" in operations}
    keyed = {
        path
        for path, post in posts.items()
        if any(parameter["name"] == "Idempotency-Key" for parameter in post.get("parameters", []))
    }
    # These requests store the key as the idempotency key of the job or workflow.
    assert keyed - {"/jobs", "/workflows", "/endpoints/{name}/test"} == FOUND.keys()
    assert posts.keys() - keyed <= {
        "/cron/preview",
        "/notification-rules/preview",
        "/bulk-operations/preview",
        "/redrives/preview",
        "/routes/test",
        "/payload-specs/{name}/check",
        "/schedules/simulate",
        "/explain",
    }


@EACH
def test_repeated_request_gets_the_first_answer(api: Api, database: Database, path: Path, body: Any) -> None:
    rows.delete_all(database)
    register(api)
    request_path = path(api, database)
    first = send(api, request_path, body)
    assert first.status_code in {200, 201, 202}, first.get_data(as_text=True)
    before = contents(database)
    for _ in range(2):
        again = send(api, request_path, body)
        assert (again.status_code, again.data) == (first.status_code, first.data)
        assert again.headers.get("ETag") == first.headers.get("ETag")
        assert (is_replay(first), is_replay(again)) == (False, True)
    assert contents(database) == before


@EACH
def test_requests_with_different_keys_are_independent(api: Api, database: Database, path: Path, body: Any) -> None:
    rows.delete_all(database)
    register(api)
    request_path = path(api, database)
    send(api, request_path, body)
    assert not is_replay(send(api, request_path, body, key="another"))
    assert not is_replay(api.post(request_path, body))


def test_key_of_another_request_is_refused(api: Api, database: Database) -> None:
    register(api)
    job_id = created(api, cron())["job_id"]
    assert send(api, "/configs", CONFIG).status_code == 201
    before = contents(database)
    for path, body in (
        ("/configs", {"name": "n", "values": {"a": 1, "b": 3}}),
        ("/configs", {"name": "m", "values": {"a": 1, "b": 2}}),
        ("/payload-specs", {"name": "n", "schema": {}}),
        (f"/jobs/{job_id}/pause", None),
    ):
        problem(send(api, path, body), 422, "IDEMPOTENCY_KEY_REUSED")
    assert contents(database) == before
    same_body = '{"values": {"b": 2,   "a": 1}, "name": "n"}'
    headers = {"Idempotency-Key": "8e03978e", "Content-Type": "application/json"}
    assert is_replay(api.send("POST", "/configs", data=same_body, headers=headers))


def test_key_with_another_query_is_refused(api: Api, database: Database) -> None:
    register(api)
    job_id = created(api, cron())["job_id"]
    assert send(api, f"/jobs/{job_id}/cancel", None).status_code == 200
    problem(send(api, f"/jobs/{job_id}/cancel?if_running=request", None), 422, "IDEMPOTENCY_KEY_REUSED")


def test_each_client_has_its_own_keys(api: Api) -> None:
    first = send(api, "/configs", CONFIG)
    other = other_client(api)
    error = problem(send(other, "/configs", CONFIG), 409, "CONFLICT")
    assert "values" not in str(error)
    assert send(other, "/configs", {"name": "m", "values": {}}).status_code == 201
    assert send(api, "/configs", CONFIG).json == first.json


def test_refused_request_may_be_repeated_with_its_key(api: Api) -> None:
    problem(send(api, "/endpoints", {"name": "UPPER"}), 400, "INVALID_REQUEST")
    api.post("/configs", CONFIG)
    problem(send(api, "/configs", CONFIG), 409, "CONFLICT")
    assert api.delete("/configs/n").status_code == 204
    first = send(api, "/configs", CONFIG)
    assert (first.status_code, is_replay(first)) == (201, False)
    assert send(api, "/configs", CONFIG).json == first.json


def test_stored_answer_survives_later_changes(api: Api) -> None:
    first = send(api, "/configs", CONFIG)
    assert api.put("/configs/n", {"values": {"a": 9}}).status_code == 200
    assert send(api, "/configs", CONFIG).data == first.data
    assert api.delete("/configs/n").status_code == 204
    assert send(api, "/configs", CONFIG).data == first.data
    problem(api.get("/configs/n"), 404, "CONFIG_NOT_FOUND")


def test_repeated_pause_does_not_pause_a_resumed_job(api: Api) -> None:
    register(api)
    job_id = created(api, cron())["job_id"]
    send(api, f"/jobs/{job_id}/pause", None)
    api.post(f"/jobs/{job_id}/resume")
    assert send(api, f"/jobs/{job_id}/pause", None).json["status"] == "PAUSED"
    assert api.get(f"/jobs/{job_id}").json["status"] == "ACTIVE"


@each_case("key", ["", "ü", "x" * 256, "a\tb"])
def test_invalid_key_is_400(api: Api, key: str) -> None:
    assert pointers(problem(send(api, "/configs", CONFIG, key=key), 400, "INVALID_REQUEST")) == ["Idempotency-Key"]
    assert send(api, "/configs", CONFIG, key="~" * 255).status_code == 201


def test_invalid_body_with_a_key_is_refused(api: Api) -> None:
    headers = {"Idempotency-Key": "k"}
    problem(api.send("POST", "/configs", data="name=x", headers=headers), 415, "UNSUPPORTED_MEDIA_TYPE")
    broken = {**headers, "Content-Type": "application/json"}
    problem(api.send("POST", "/configs", data='{"name"', headers=broken), 400, "INVALID_REQUEST")


def test_stored_key_contains_no_secret_and_no_plain_hash_of_a_secret(api: Api, database: Database) -> None:
    body = {"name": "pin", "value": "1234"}
    for client in (api, other_client(api)):
        send(client, "/secrets", body)
        api.delete("/secrets/pin")
    (one, two) = database.fetch(text("SELECT *, CAST(k AS TEXT) AS whole FROM idempotency_keys AS k"))
    assert one.fingerprint != two.fingerprint
    for text_ in ("1234", '{"name": "pin", "value": "1234"}'):
        assert text_ not in one.body
        assert hashlib.sha256(text_.encode()).hexdigest() not in one.whole
    assert api.key.rpartition("_")[2] not in one.whole  # type: ignore[union-attr]


@pytest.mark.own_faults  # a repeated transaction finds its own answer and wakes nobody: workers find the job by a poll
def test_workers_are_woken_once_after_the_commit(
    app: Flask, api: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(api)
    job_id = created(api, cron())["job_id"]
    seen: list[int] = []

    def hint(_queue: str, *_place: object) -> None:
        with database.engine.connect() as other:
            seen.append(other.execute(text("SELECT count(*) FROM executions")).scalar_one())

    monkeypatch.setattr(services(app).notifier, "hint", hint)
    for _ in range(2):
        assert send(api, f"/jobs/{job_id}/run", None).status_code == 201
    assert seen == [1]


def test_key_of_post_jobs_belongs_to_the_job(api: Api) -> None:
    """The key of POST /jobs is part of the job: any client that repeats the request gets the current job."""
    register(api)
    body = one_shot("k")
    del body["idempotency_key"]
    first = send(api, "/jobs", body)
    again = send(other_client(api), "/jobs", body | {"input": {"user_id": "u_2"}})
    assert (first.status_code, again.status_code, is_replay(again)) == (201, 200, True)
    assert again.json == first.json
