"""Server errors: the client gets a 5xx without internal details."""

import json
import logging

import pytest
from flask import Flask
from sqlalchemy import text

from app.kernel import db
from app.kernel.config import Settings
from tests.integration.client import Api, problem, running, services
from tests.integration.registered import register


def test_unexpected_error_is_logged_and_hidden_from_the_client(
    app: Flask, api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def crash(*_: object) -> None:
        raise ZeroDivisionError("the password is hunter2")

    monkeypatch.setattr("app.web.jobs.jobs_api.get_job", crash)
    response = api.send("GET", "/jobs/x", headers={"X-Request-ID": "find-me"})
    error = problem(response, 500, "INTERNAL_ERROR")
    assert "hunter2" not in json.dumps(error)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "find-me" in record.getMessage()
    assert record.exc_info is not None


def test_error_answer_contains_no_statement(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(database: db.Database, _job_id: str) -> None:
        database.fetch(text("SELECT secret_column FROM nowhere"))

    monkeypatch.setattr("app.web.jobs.jobs_api.get_job", fail)
    response = api.get("/jobs/x")
    problem(response, 500, "INTERNAL_ERROR")
    assert "nowhere" not in response.get_data(as_text=True)


@pytest.mark.parametrize("state", ["25006", "53200", "58030", "58C00", "XXUUU", "0A000", "55P03"])
def test_database_failure_is_503(api: Api, monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    if services(api.app).database.is_cockroach:
        pytest.skip("needs PL/pgSQL to fail on demand")

    def fail(database: db.Database, _job_id: str) -> None:
        database.fetch(text(f"DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{state}'; END $$"))

    monkeypatch.setattr("app.web.jobs.jobs_api.get_job", fail)
    assert problem(api.get("/jobs/x"), 503, "SERVICE_UNAVAILABLE")["retryable"]


@pytest.mark.parametrize("statement", ["SELECT a FROM nowhere WHERE a = :a", "INSERT INTO picky VALUES (:a)"])
def test_unexpected_database_error_is_logged_without_values(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, statement: str
) -> None:
    services(api.app).database.fetch(text("CREATE TABLE picky (a TEXT CHECK (length(a) < 3))"))
    value = "hunter" + str(2)  # a traceback shows this line too

    def fail(database: db.Database, _job_id: str) -> None:
        database.fetch(text(statement), {"a": value})

    monkeypatch.setattr("app.web.jobs.jobs_api.get_job", fail)
    problem(api.get("/jobs/x"), 500, "INTERNAL_ERROR")
    assert "SQLSTATE" in caplog.text
    assert value not in caplog.text


def test_value_refused_by_the_database_is_400(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks of request bodies come first; this error is a safety net."""

    def fail(database: db.Database, _job_id: str) -> None:
        database.fetch(text("SELECT CAST('x' AS BIGINT)"))

    monkeypatch.setattr("app.web.jobs.jobs_api.get_job", fail)
    problem(api.get("/jobs/x"), 400, "INVALID_REQUEST")


def test_unreachable_database_is_503(settings: Settings) -> None:
    unreachable = Settings(database_url="postgresql://nobody@127.0.0.1:1/none")
    with running(unreachable) as app:
        response = Api(app, "te_a_b").get("/jobs")
    error = problem(response, 503, "SERVICE_UNAVAILABLE")
    assert error["retryable"]
    assert int(response.headers["Retry-After"]) >= 1


@pytest.mark.postgresql_only
def test_read_is_repeated_after_a_lost_connection(api: Api) -> None:
    """A pooled connection closed by the server causes no error."""
    register(api)
    database = services(api.app).database
    database.fetch(text("SELECT 1"))
    kill = text(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    other = db.connect(services(api.app).settings.database_url, pool_size=1, application_name="te-test")
    try:
        other.fetch(kill)
    finally:
        other.close()
    assert api.get("/endpoints/target").status_code == 200
