"""Idempotency keys of jobs: a second request with the same key gets the first job."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2
import pytest
from flask import Flask
from sqlalchemy import event
from werkzeug.test import TestResponse

from app.kernel.db import Database
from tests.integration.client import Api, pointers, problem, services
from tests.integration.registered import created, cron, delayed, one_shot, register, register_all


def assert_replayed(response: TestResponse, first: dict[str, Any]) -> None:
    assert (response.status_code, response.headers.get("Idempotency-Replayed")) == (200, "true")
    assert response.json["job_id"] == first["job_id"]


def test_replay_returns_the_first_job_even_with_another_body(api: Api) -> None:
    register_all(api)
    first = created(api, one_shot("k"))
    for body in (
        one_shot("k"),
        one_shot("k", input={"user_id": "another"}),
        one_shot("k", input={}),
        delayed("k", "2090-01-01T00:00:00Z"),
        cron(idempotency_key="k"),
        cron(idempotency_key="k", cron="bad"),
        cron(idempotency_key="k", timezone="nowhere"),
    ):
        response = api.post("/jobs", body)
        assert_replayed(response, first)
        assert response.json == first
    assert len(api.get("/jobs").json["items"]) == 1


def test_replay_returns_the_current_state_of_the_job(api: Api) -> None:
    register(api)
    first = created(api, one_shot("k"))
    api.post(f"/jobs/{first['job_id']}/cancel")
    response = api.post("/jobs", one_shot("k"))
    assert_replayed(response, first)
    assert response.json["status"] == "RETIRED"
    assert response.json["execution"]["status"] == "CANCELLED"


def test_key_is_recognised_after_the_endpoint_is_deleted(api: Api) -> None:
    register(api)
    first = created(api, one_shot("k"))
    api.post(f"/jobs/{first['job_id']}/cancel")
    api.delete("/endpoints/target")
    assert_replayed(api.post("/jobs", one_shot("k")), first)
    problem(api.post("/jobs", one_shot("k2")), 404, "ENDPOINT_NOT_FOUND")


def test_each_endpoint_has_its_own_keys(api: Api) -> None:
    register(api)
    register(api, "other")
    one = created(api, one_shot("k"))
    assert created(api, one_shot("k", endpoint="other"))["job_id"] != one["job_id"]


def test_key_may_be_sent_as_a_header(api: Api) -> None:
    register(api)
    body = one_shot("k")
    del body["idempotency_key"]
    first = api.post("/jobs", body, headers={"Idempotency-Key": "k"})
    assert first.status_code == 201
    assert first.json["idempotency_key"] == "k"
    assert_replayed(api.post("/jobs", one_shot("k")), first.json)
    assert_replayed(api.post("/jobs", one_shot("k"), headers={"Idempotency-Key": "k"}), first.json)
    error = problem(api.post("/jobs", one_shot("k"), headers={"Idempotency-Key": "K"}), 400, "INVALID_REQUEST")
    assert pointers(error) == ["/idempotency_key"]


@pytest.mark.parametrize("header", ["", "k" * 256, "kü", "k\tk"])
def test_invalid_key_in_the_header_is_refused(api: Api, header: str) -> None:
    register(api)
    body = one_shot("k")
    del body["idempotency_key"]
    error = problem(api.post("/jobs", body, headers={"Idempotency-Key": header}), 400, "INVALID_REQUEST")
    assert pointers(error) == ["Idempotency-Key"]


OWN_KEYS = ("te:", "te:redrive:att_1", "te:notification:job_1", "te:test:k")


@pytest.mark.parametrize("key", OWN_KEYS)
def test_keys_of_the_service_are_refused_to_clients(api: Api, key: str) -> None:
    register(api)
    for body in (
        one_shot(key),
        one_shot(key, name="n"),
        delayed(key, "2090-01-01T00:00:00Z"),
        cron(idempotency_key=key),
    ):
        error = problem(api.post("/jobs", body), 400, "INVALID_REQUEST")
        assert pointers(error) == ["/idempotency_key"]
        (item,) = api.post("/jobs/batch", {"jobs": [body]}).json["items"]
        assert (item["status"], pointers(item["error"])) == (400, ["/idempotency_key"])
    body = one_shot(key)
    del body["idempotency_key"]
    error = problem(api.post("/jobs", body, headers={"Idempotency-Key": key}), 400, "INVALID_REQUEST")
    assert pointers(error) == ["Idempotency-Key"]
    assert api.get("/jobs").json["items"] == []
    assert created(api, one_shot(f"x{key}"))["idempotency_key"] == f"x{key}"


def test_cron_job_may_have_a_key(api: Api) -> None:
    register(api)
    first = created(api, cron(idempotency_key="nightly"))
    assert first["idempotency_key"] == "nightly"
    assert "execution" not in first
    assert_replayed(api.post("/jobs", cron(idempotency_key="nightly")), first)
    assert created(api, cron())["job_id"] != created(api, cron())["job_id"]


@contextmanager
def lost_answer(database: Database) -> Iterator[None]:
    """Lose the answer of the next statement that inserts jobs: it commits, and its connection breaks."""
    lost: list[str] = []

    def lose_the_answer(_connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if "INSERT INTO jobs" in statement and not lost:
            lost.append(statement)
            cursor.connection.close()
            raise psycopg2.OperationalError("server closed the connection unexpectedly")

    event.listen(database.engine, "after_cursor_execute", lose_the_answer)
    try:
        yield
    finally:
        event.remove(database.engine, "after_cursor_execute", lose_the_answer)
    assert lost


@pytest.mark.parametrize("body", [one_shot("k"), cron(), cron(idempotency_key="k")], ids=["one-shot", "cron", "keyed"])
def test_lost_answer_of_the_database_still_gives_201(api: Api, database: Database, body: dict[str, Any]) -> None:
    """The INSERT commits but its answer is lost: the second try finds the id of its own job, so the answer is 201."""
    register(api)
    created(api, one_shot("warm-up"))
    with lost_answer(database):
        response = api.post("/jobs", body)
    assert response.status_code == 201, response.get_data(as_text=True)
    assert "Idempotency-Replayed" not in response.headers
    assert len(api.get("/jobs").json["items"]) == 2


@pytest.mark.parametrize(
    ("body", "queues"), [(one_shot("k"), ["http"]), (delayed("k", "2090-01-01T00:00:00Z"), [])], ids=["due", "delayed"]
)
def test_lost_answer_wakes_workers_only_for_a_due_execution(
    app: Flask, api: Api, database: Database, monkeypatch: pytest.MonkeyPatch, body: dict[str, Any], queues: list[str]
) -> None:
    register(api)
    woken: list[str] = []
    monkeypatch.setattr(services(app).notifier, "hint", lambda queue, *_: woken.append(queue))
    with lost_answer(database):
        created(api, body)
    assert woken == queues
