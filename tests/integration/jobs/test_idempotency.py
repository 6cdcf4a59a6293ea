"""Idempotency keys: a second request with the same key is answered with the first job."""

from typing import Any

import psycopg2
import pytest
from sqlalchemy import event
from werkzeug.test import TestResponse

from app.kernel.db import Database
from tests.integration.client import Api, pointers, problem
from tests.integration.registered import created, cron, delayed, one_shot, register, register_all


def replayed(response: TestResponse, first: dict[str, Any]) -> None:
    assert (response.status_code, response.headers.get("Idempotency-Replayed")) == (200, "true")
    assert response.json["job_id"] == first["job_id"]


def test_a_replay_is_200_with_the_first_job_whatever_its_body(api: Api) -> None:
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
        replayed(response, first)
        assert response.json == first
    assert len(api.get("/jobs").json["items"]) == 1


def test_a_replay_shows_the_job_as_it_is_now(api: Api) -> None:
    register(api)
    first = created(api, one_shot("k"))
    api.post(f"/jobs/{first['job_id']}/cancel")
    response = api.post("/jobs", one_shot("k"))
    replayed(response, first)
    assert response.json["status"] == "RETIRED"
    assert response.json["execution"]["status"] == "CANCELLED"


def test_a_replay_is_known_after_the_endpoint_is_gone(api: Api) -> None:
    register(api)
    first = created(api, one_shot("k"))
    api.post(f"/jobs/{first['job_id']}/cancel")
    api.delete("/endpoints/target")
    replayed(api.post("/jobs", one_shot("k")), first)
    problem(api.post("/jobs", one_shot("k2")), 404, "ENDPOINT_NOT_FOUND")


def test_keys_belong_to_their_endpoint(api: Api) -> None:
    register(api)
    register(api, "other")
    one = created(api, one_shot("k"))
    assert created(api, one_shot("k", endpoint="other"))["job_id"] != one["job_id"]


def test_the_key_may_come_in_the_header(api: Api) -> None:
    register(api)
    body = one_shot("k")
    del body["idempotency_key"]
    first = api.post("/jobs", body, headers={"Idempotency-Key": "k"})
    assert first.status_code == 201
    assert first.json["idempotency_key"] == "k"
    replayed(api.post("/jobs", one_shot("k")), first.json)
    replayed(api.post("/jobs", one_shot("k"), headers={"Idempotency-Key": "k"}), first.json)
    error = problem(api.post("/jobs", one_shot("k"), headers={"Idempotency-Key": "K"}), 400, "INVALID_REQUEST")
    assert pointers(error) == ["/idempotency_key"]


@pytest.mark.parametrize("header", ["", "k" * 256, "kü", "k\tk"])
def test_a_bad_header_key_is_refused(api: Api, header: str) -> None:
    register(api)
    body = one_shot("k")
    del body["idempotency_key"]
    error = problem(api.post("/jobs", body, headers={"Idempotency-Key": header}), 400, "INVALID_REQUEST")
    assert pointers(error) == ["Idempotency-Key"]


def test_a_cron_job_may_have_a_key(api: Api) -> None:
    register(api)
    first = created(api, cron(idempotency_key="nightly"))
    assert first["idempotency_key"] == "nightly"
    assert "execution" not in first
    replayed(api.post("/jobs", cron(idempotency_key="nightly")), first)
    assert created(api, cron())["job_id"] != created(api, cron())["job_id"]


@pytest.mark.parametrize("body", [one_shot("k"), cron(), cron(idempotency_key="k")], ids=["one-shot", "cron", "keyed"])
def test_a_lost_answer_is_still_our_own_job(api: Api, database: Database, body: dict[str, Any]) -> None:
    """The statement comes through, its answer does not: the second run finds our own id, and it is a 201."""
    register(api)
    created(api, one_shot("warm-up"))
    lost: list[str] = []

    def lose_the_answer(_connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if "INSERT INTO jobs" in statement and not lost:
            lost.append(statement)
            cursor.connection.close()
            raise psycopg2.OperationalError("server closed the connection unexpectedly")

    event.listen(database.engine, "after_cursor_execute", lose_the_answer)
    try:
        response = api.post("/jobs", body)
    finally:
        event.remove(database.engine, "after_cursor_execute", lose_the_answer)
    assert lost
    assert response.status_code == 201, response.get_data(as_text=True)
    assert "Idempotency-Replayed" not in response.headers
    assert len(api.get("/jobs").json["items"]) == 2
