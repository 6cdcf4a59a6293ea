"""Creating jobs: each trigger, idempotency, and what it costs the database."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg2
import pytest
from flask import Flask
from sqlalchemy import event, text
from werkzeug.test import TestResponse

from app import db
from app.config import Settings
from app.db import Database
from app.jobs.endpoint_cache import EndpointCache
from tests import rows
from tests.integration.client import Api, administrator, another_process, pointers, problem, running, services
from tests.integration.registered import INPUT, SCHEMA, created, cron, http_endpoint, one_shot, register, register_all
from tests.integration.statements import Statements


def delayed(key: str, run_at: datetime | str, **changes: Any) -> dict[str, Any]:
    at = run_at if isinstance(run_at, str) else run_at.isoformat()
    return one_shot(key, trigger="DELAYED", run_at=at, **changes)


def stored(database: Database, job: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Read a job's row and those of its executions."""
    params = {"id": job["job_id"]}
    (row,) = database.fetch(text("SELECT * FROM jobs WHERE job_id = :id"), params)
    return row, list(database.fetch(text("SELECT * FROM executions WHERE job_id = :id"), params))


def test_an_immediate_job(api: Api, database: Database) -> None:
    register(api, retry_policy={"max_attempts": 4})
    response = api.post("/jobs", one_shot("order-1234", input={"user_id": "u", "deep": {"list": [1, 2.5, None, "ü"]}}))
    job = response.json
    assert response.status_code == 201
    assert "Idempotency-Replayed" not in response.headers
    assert set(job) == {
        *("job_id", "endpoint", "endpoint_type", "endpoint_version", "trigger", "status", "version"),
        *("idempotency_key", "input", "execution", "created_at", "paused_at", "retired_at"),
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
    assert (execution.queue, execution.shard, execution.max_attempts, execution.endpoint_version) == ("http", 0, 4, 1)
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
def test_a_delayed_job(api: Api, database: Database, due_in: timedelta, status: str) -> None:
    register(api)
    now = rows.database_now(database)
    job = created(api, delayed("k", now + due_in))
    assert job["execution"]["status"] == status
    assert datetime.fromisoformat(job["run_at"]) == now + due_in
    assert api.get(f"/jobs/{job['job_id']}").json == job
    row, (execution,) = stored(database, job)
    assert row.run_at == now + due_in
    # In the past means now: an old date is no way to the head of the queue.
    assert execution.run_at == execution.scheduled_at == max(now + due_in, execution.created_at)


def test_the_look_ahead_is_a_setting(database_url: str) -> None:
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
def test_offsets_are_understood(api: Api, run_at: str, utc: str) -> None:
    register(api)
    assert created(api, delayed("k", run_at))["run_at"] == utc


def test_a_cron_job(api: Api, database: Database) -> None:
    register_all(api)
    job = created(api, cron(starts_at="2090-03-13T00:00:00Z", ends_at=None))
    assert job | {"job_id": "", "created_at": ""} == {
        "job_id": "",
        "endpoint": "target",
        "endpoint_type": "HTTP",
        "endpoint_version": 1,
        "trigger": "CRON",
        "status": "ACTIVE",
        "version": 1,
        "previous_version_id": None,
        "replaced_by_id": None,
        "cron": "0 9 * * MON",
        "timezone": "Asia/Kolkata",
        "starts_at": "2090-03-13T00:00:00Z",
        "ends_at": None,
        "catch_up": "all",
        "max_catch_up": None,
        "overlap": "allow",
        "next_run_at": "2090-03-13T09:00:00+05:30",
        "input": INPUT,
        "created_at": "",
        "paused_at": None,
        "retired_at": None,
    }
    assert api.get(f"/jobs/{job['job_id']}").json == job
    row, executions = stored(database, job)
    assert executions == []
    assert row.cron_next_run_at == datetime(2090, 3, 13, 3, 30, tzinfo=UTC)
    assert row.idempotency_key is None


def test_the_first_tick_may_be_the_start_itself(api: Api) -> None:
    register(api)
    job = created(api, cron(cron="0 9 * * *", timezone="UTC", starts_at="2090-01-01T09:00:00Z"))
    assert job["next_run_at"] == "2090-01-01T09:00:00Z"


def test_a_start_in_the_past_means_now(api: Api) -> None:
    """No ticks are owed from before the job existed."""
    register(api)
    job = created(api, cron(cron="* * * * *", timezone="UTC", starts_at="2020-01-01T00:00:00Z"))
    wait = datetime.fromisoformat(job["next_run_at"]) - datetime.fromisoformat(job["created_at"])
    assert timedelta(seconds=-5) < wait <= timedelta(seconds=65)
    assert job["starts_at"] == "2020-01-01T00:00:00Z"


def test_without_a_start_a_cron_job_starts_now(api: Api) -> None:
    register(api)
    job = created(api, cron())
    started = datetime.fromisoformat(job["starts_at"]) - datetime.fromisoformat(job["created_at"])
    assert abs(started) < timedelta(seconds=5)


@pytest.mark.parametrize(
    ("changes", "status", "code", "where"),
    [
        ({"cron": "bad"}, 422, "INVALID_CRON", "/cron"),
        ({"cron": "* * * * * *"}, 422, "INVALID_CRON", "/cron"),
        ({"cron": "0 0 31 2 *"}, 422, "INVALID_CRON", "/cron"),
        (
            {"starts_at": "2090-03-14T00:00:00Z", "ends_at": "2090-03-15T00:00:00Z"},
            422,
            "INVALID_CRON",
            "/cron",
        ),
        # The end itself is not part of the schedule.
        (
            {"timezone": "UTC", "starts_at": "2090-03-12T10:00:00Z", "ends_at": "2090-03-13T09:00:00Z"},
            422,
            "INVALID_CRON",
            "/cron",
        ),
        ({"ends_at": "2020-01-01T00:00:00Z"}, 422, "INVALID_CRON", "/cron"),
        ({"timezone": "Mars/Olympus"}, 400, "INVALID_REQUEST", "/timezone"),
        ({"timezone": "../../etc/passwd"}, 400, "INVALID_REQUEST", "/timezone"),
        ({"timezone": ""}, 400, "INVALID_REQUEST", "/timezone"),
        ({"timezone": None}, 400, "INVALID_REQUEST", "/timezone"),
        ({"cron": "x" * 300}, 400, "INVALID_REQUEST", "/cron"),
        (
            {"starts_at": "2090-03-14T00:00:00Z", "ends_at": "2090-03-14T00:00:00Z"},
            400,
            "INVALID_REQUEST",
            "/ends_at",
        ),
        ({"run_at": "2090-03-14T00:00:00Z"}, 400, "INVALID_REQUEST", "/run_at"),
    ],
)
def test_a_cron_job_that_cannot_be(api: Api, changes: dict[str, Any], status: int, code: str, where: str) -> None:
    register(api)
    assert pointers(problem(api.post("/jobs", cron(**changes)), status, code)) == [where]
    assert api.get("/jobs").json["items"] == []


def test_an_unknown_endpoint_is_404(api: Api) -> None:
    for body in (one_shot("k"), cron(), delayed("k", "2090-01-01T00:00:00Z")):
        problem(api.post("/jobs", body), 404, "ENDPOINT_NOT_FOUND")


def test_the_input_must_match_the_payload_spec(api: Api) -> None:
    register_all(api)
    for input_, where in (({}, "/input"), ({"user_id": 7}, "/input/user_id"), (None, "/input")):
        error = problem(api.post("/jobs", one_shot("k", input=input_)), 422, "INPUT_VALIDATION_FAILED")
        assert pointers(error) == [where]
    problem(api.post("/jobs", cron(input={})), 422, "INPUT_VALIDATION_FAILED")
    assert api.get("/jobs").json["items"] == []


def test_without_a_payload_spec_any_object_will_do(api: Api) -> None:
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


# --- idempotency ---


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


# --- what it costs, and what the cache may get wrong ---


@pytest.mark.parametrize("kind", ["immediate", "delayed", "cron"])
def test_creating_a_job_is_one_statement(api: Api, statements: Statements, kind: str) -> None:
    bodies = {
        "immediate": one_shot,
        "delayed": lambda key: delayed(key, "2090-01-01T00:00:00Z"),
        "cron": lambda key: cron(idempotency_key=key),
    }
    register_all(api)
    created(api, one_shot("warm-up"))
    statements.clear()
    for number in range(3):
        created(api, bodies[kind](f"k{number}"))
        assert len(statements.texts) == number + 1, statements.texts
    # In autocommit the driver sends neither BEGIN nor COMMIT: one statement is one round trip.
    assert all(statements.in_autocommit)


def test_nothing_follows_the_statement_on_its_connection(app: Flask, api: Api) -> None:
    """SQLAlchemy cannot see what the driver sends by itself; the server can."""
    register_all(api)
    created(api, one_shot("k"))
    watcher = db.connect(services(app).settings.database_url, pool_size=1, application_name="te-test")
    last = watcher.fetch(
        text(
            "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'te-web' "
            "ORDER BY state_change DESC LIMIT 1"
        )
    )
    watcher.close()
    assert "INSERT INTO jobs" in last[0].query


def test_a_change_of_the_endpoint_is_noticed(api: Api) -> None:
    """Another process changed it: this one's cache is told by the statement itself."""
    register(api)
    created(api, one_shot("a"))
    body = {key: value for key, value in http_endpoint(retry_policy={"max_attempts": 5}).items() if key != "name"}
    with another_process(api) as other:
        assert other.put("/endpoints/target", body).status_code == 200
    assert created(api, one_shot("b"))["endpoint_version"] == 2


def test_a_changed_payload_spec_is_noticed(api: Api) -> None:
    register_all(api)
    created(api, one_shot("a"))
    with another_process(api) as other:
        strict = SCHEMA | {"required": ["user_id", "order_id"]}
        assert other.put("/payload-specs/spec", {"schema": strict}).status_code == 200
        problem(api.post("/jobs", one_shot("b")), 422, "INPUT_VALIDATION_FAILED")
        assert other.put("/payload-specs/spec", {"schema": {}}).status_code == 200
        created(api, one_shot("b", input={"user_id": 5}))


def test_a_deleted_endpoint_is_noticed(api: Api) -> None:
    register(api)
    job = created(api, one_shot("a"))
    api.post(f"/jobs/{job['job_id']}/cancel")
    with another_process(api) as other:
        assert other.delete("/endpoints/target").status_code == 204
        problem(api.post("/jobs", one_shot("b")), 404, "ENDPOINT_NOT_FOUND")
        register(other)
    assert created(api, one_shot("b"))["endpoint_version"] == 2


def test_the_cache_is_bounded(api: Api, database: Database, statements: Statements) -> None:
    cache = EndpointCache(database, max_entries=2)
    for name in ("a", "b", "c"):
        register(api, name)
        cache.fitting(name, INPUT)
    statements.clear()
    cache.fitting("c", INPUT)
    assert statements.texts == []
    cache.fitting("a", INPUT)
    assert len(statements.texts) == 1


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


# --- waking the workers ---


def test_workers_are_woken_by_what_is_due(app: Flask, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    register(api)
    woken: list[str] = []
    monkeypatch.setattr(services(app).notifier, "hint", woken.append)
    created(api, one_shot("k"))
    assert woken == ["http"]
    api.post("/jobs", one_shot("k"))
    created(api, delayed("later", "2090-01-01T00:00:00Z"))
    created(api, cron())
    problem(api.post("/jobs", one_shot("k2", endpoint="nope")), 404, "ENDPOINT_NOT_FOUND")
    assert woken == ["http"]
