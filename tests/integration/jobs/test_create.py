"""Creation of jobs: one-shot jobs, fields of all jobs, and wake-ups of workers."""

from datetime import datetime, timedelta

import pytest
from flask import Flask

from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.ids import shard_of
from tests import rows
from tests.integration.client import Api, administrator, pointers, problem, running, services
from tests.integration.jobs.stored import stored
from tests.integration.registered import created, cron, delayed, one_shot, register, register_all


def test_immediate_job_is_queued_with_the_fields_of_its_request(api: Api, database: Database) -> None:
    register(api, retry_policy={"max_attempts": 4})
    response = api.post("/jobs", one_shot("order-1234", input={"user_id": "u", "deep": {"list": [1, 2.5, None, "ü"]}}))
    job = response.json
    assert response.status_code == 201
    assert "Idempotency-Replayed" not in response.headers
    assert set(job) == {
        *("job_id", "endpoint", "endpoint_type", "endpoint_version", "trigger", "status", "version"),
        *("idempotency_key", "name", "labels", "queue", "priority", "limit_key", "input", "execution"),
        *("callbacks", "callback_of", "created_at", "paused_at", "retired_at"),
    }
    assert job | {"job_id": "", "created_at": "", "execution": ""} == {
        "job_id": "",
        "endpoint": "target",
        "endpoint_type": "HTTP",
        "endpoint_version": 1,
        "trigger": "IMMEDIATE",
        "status": "ACTIVE",
        "version": 1,
        "idempotency_key": "order-1234",
        "name": None,
        "labels": {},
        "queue": None,
        "priority": None,
        "limit_key": None,
        "callbacks": None,
        "callback_of": None,
        "input": {"user_id": "u", "deep": {"list": [1, 2.5, None, "ü"]}},
        "execution": "",
        "created_at": "",
        "paused_at": None,
        "retired_at": None,
    }
    assert set(job["execution"]) == {"execution_id", "status", "created_at"}
    assert job["execution"]["status"] == "QUEUED"
    assert api.get(f"/jobs/{job['job_id']}").json == job

    row, (execution,) = stored(database, job)
    assert (row.trigger_type, row.run_at, row.max_attempts, row.endpoint_version) == ("IMMEDIATE", None, 4, 1)
    assert (execution.queue, execution.max_attempts, execution.endpoint_version) == ("http", 4, 1)
    assert execution.shard == shard_of(execution.execution_id, services(api.app).shards)
    assert execution.run_at == execution.scheduled_at == execution.created_at
    assert execution.idempotency_key == "order-1234"


@pytest.mark.parametrize(
    ("due_in", "status"),
    [
        (timedelta(days=-365), "QUEUED"),
        (timedelta(0), "QUEUED"),
        (timedelta(seconds=2), "QUEUED"),
        (timedelta(seconds=60), "PENDING"),
        (timedelta(days=3650), "PENDING"),
    ],
)
def test_delayed_job_is_pending_unless_due_within_the_look_ahead(
    api: Api, database: Database, due_in: timedelta, status: str
) -> None:
    register(api)
    now = rows.database_now(database)
    job = created(api, delayed("k", now + due_in))
    assert job["execution"]["status"] == status
    assert datetime.fromisoformat(job["run_at"]) == now + due_in
    assert api.get(f"/jobs/{job['job_id']}").json == job
    row, (execution,) = stored(database, job)
    assert row.run_at == now + due_in
    # A time in the past counts as now; otherwise an old date would put the job at the head of the queue.
    assert execution.run_at == execution.scheduled_at == max(now + due_in, execution.created_at)


@pytest.mark.parametrize(
    ("delay", "due_in", "status"),
    [("10m", timedelta(minutes=10), "PENDING"), ("PT1H30M", timedelta(hours=1.5), "PENDING"), (250, None, "QUEUED")],
)
def test_delay_counts_from_the_creation_by_the_database_clock(
    api: Api, database: Database, delay: str | int, due_in: timedelta | None, status: str
) -> None:
    register(api)
    body = one_shot("alone", trigger="DELAYED", delay=delay)
    alone = created(api, body)
    (item,) = api.post("/jobs/batch", {"jobs": [body | {"idempotency_key": "in a batch"}]}).json["items"]
    for job in (alone, item["job"]):
        row, (execution,) = stored(database, job)
        assert row.run_at == execution.run_at == row.created_at + (due_in or timedelta(milliseconds=250))
        assert datetime.fromisoformat(job["run_at"]) == row.run_at
        assert execution.status == status
        assert api.get(f"/jobs/{job['job_id']}").json == job
    assert api.post("/jobs", body).json["run_at"] == alone["run_at"]


def test_delayed_job_needs_one_time(api: Api) -> None:
    register(api)
    late = {"run_at": "2090-01-01T00:00:00Z"}
    for given, pointer, message in (
        ({}, "/run_at", "Required for DELAYED jobs, unless `delay` is given."),
        (late | {"delay": "10m"}, "/delay", "Not together with `run_at`. Give one of the two."),
        ({"delay": "soon"}, "/delay", "Must be a duration, such as 500ms, 10s, 5m, 2h, 1d or PT10M, or milliseconds."),
        ({"delay": -1}, "/delay", "Must be from 0 to 3650d."),
    ):
        error = problem(api.post("/jobs", one_shot("k", trigger="DELAYED", **given)), 400, "INVALID_REQUEST")
        assert (pointer, message) in [(each["pointer"], each["message"]) for each in error["details"]]
    error = problem(api.post("/jobs", one_shot("k", delay="10m")), 400, "INVALID_REQUEST")
    assert pointers(error) == ["/delay"]


def test_look_ahead_is_a_setting(database_url: str) -> None:
    with running(Settings(database_url=database_url, look_ahead_seconds=120)) as app:
        api = administrator(app)
        register(api)
        soon = rows.database_now(services(app).database) + timedelta(seconds=60)
        assert created(api, delayed("k", soon))["execution"]["status"] == "QUEUED"


@pytest.mark.parametrize(
    ("run_at", "utc"),
    [
        ("2090-03-15T18:00:00Z", "2090-03-15T18:00:00Z"),
        ("2090-03-15t18:00:00z", "2090-03-15T18:00:00Z"),
        ("2090-03-15T18:00:00.123456+05:30", "2090-03-15T12:30:00.123456Z"),
        ("2090-03-15T18:00:00.123456789-00:00", "2090-03-15T18:00:00.123456Z"),
    ],
)
def test_run_at_is_converted_to_utc(api: Api, run_at: str, utc: str) -> None:
    register(api)
    assert created(api, delayed("k", run_at))["run_at"] == utc


def test_unknown_endpoint_is_404(api: Api) -> None:
    for body in (one_shot("k"), cron(), delayed("k", "2090-01-01T00:00:00Z")):
        problem(api.post("/jobs", body), 404, "ENDPOINT_NOT_FOUND")


def test_input_must_match_the_payload_spec(api: Api) -> None:
    register_all(api)
    for input_, pointer in (({}, "/input/user_id"), ({"user_id": 7}, "/input/user_id"), (None, "/input/user_id")):
        error = problem(api.post("/jobs", one_shot("k", input=input_)), 422, "INPUT_VALIDATION_FAILED")
        assert pointers(error) == [pointer]
    problem(api.post("/jobs", cron(input={})), 422, "INPUT_VALIDATION_FAILED")
    assert api.get("/jobs").json["items"] == []


def test_any_object_is_a_valid_input_without_a_payload_spec(api: Api) -> None:
    register(api)
    assert created(api, one_shot("a", input={"x": [1]}))["input"] == {"x": [1]}
    body = one_shot("b")
    del body["input"]
    assert created(api, body)["input"] == {}


def test_optional_fields_of_other_triggers_may_be_null(api: Api) -> None:
    register(api)
    nothing = dict.fromkeys(["run_at", "cron", "timezone", "starts_at", "ends_at"])
    created(api, one_shot("k", **nothing))
    created(api, cron(run_at=None, idempotency_key=None))


def test_only_new_due_executions_wake_workers(app: Flask, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    register(api)
    woken: list[str] = []
    monkeypatch.setattr(services(app).notifier, "hint", lambda queue, *_: woken.append(queue))
    created(api, one_shot("k"))
    assert woken == ["http"]
    api.post("/jobs", one_shot("k"))
    created(api, delayed("later", "2090-01-01T00:00:00Z"))
    created(api, cron())
    problem(api.post("/jobs", one_shot("k2", endpoint="nope")), 404, "ENDPOINT_NOT_FOUND")
    assert woken == ["http"]
