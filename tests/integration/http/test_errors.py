"""Whatever a client sends, the answer is the documented envelope: 4xx for its faults, never 500."""

import io
import json
import logging
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text

from app import db
from app.config import Settings
from tests.integration.client import Api, pointers, problem, running, services
from tests.integration.http.malformed import MALFORMED
from tests.integration.registered import http_endpoint, one_shot, register

JSON = "application/json"


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize(("method", "path"), [("POST", "/configs"), ("PUT", "/configs/x"), ("POST", "/jobs")])
def test_a_malformed_body_is_refused(
    shared_api: Api, caplog: pytest.LogCaptureFixture, method: str, path: str, body: bytes
) -> None:
    """By ourselves: that the database refuses a value too, and that we say so in the log, is the safety net."""
    problem(shared_api.send(method, path, data=body, content_type=JSON), 400, "INVALID_REQUEST")
    assert caplog.records == []


WRONG = [
    ("POST", "/configs", {}, ["/name", "/values"]),
    ("POST", "/configs", {"name": 1, "values": []}, ["/name", "/values"]),
    ("POST", "/configs", {"name": None, "values": None}, ["/name", "/values"]),
    ("POST", "/configs", {"name": "x", "values": {}, "extra": 1, "a/b~c": 2}, ["/extra", "/a~1b~0c"]),
    ("POST", "/secrets", {"name": "x", "value": ""}, ["/value"]),
    ("POST", "/secrets", {"name": "x", "value": 7}, ["/value"]),
    ("POST", "/secrets", {"name": "x", "value": "v" * 65_537}, ["/value"]),
    ("POST", "/payload-specs", {"name": "x"}, ["/schema"]),
    ("POST", "/endpoints", {"name": "x"}, ["/type", "/spec"]),
    ("POST", "/endpoints", http_endpoint(type="FTP"), ["/type"]),
    ("POST", "/endpoints", http_endpoint(type="http"), ["/type"]),
    ("POST", "/endpoints", http_endpoint(spec="x"), ["/spec"]),
    ("POST", "/endpoints", http_endpoint(retry_policy={"max_attempts": 0}), ["/retry_policy/max_attempts"]),
    ("POST", "/endpoints", http_endpoint(retry_policy={"tries": 1}), ["/retry_policy/tries"]),
    ("POST", "/jobs", {}, ["/endpoint", "/trigger"]),
    ("POST", "/jobs", one_shot("k", trigger="SOON"), ["/trigger"]),
    ("POST", "/jobs", one_shot("k", trigger=1), ["/trigger"]),
    ("POST", "/jobs", one_shot("k", input=[]), ["/input"]),
    ("POST", "/jobs", one_shot("k", input="x"), ["/input"]),
    ("POST", "/jobs", one_shot(""), ["/idempotency_key"]),
    ("POST", "/jobs", one_shot("k" * 256), ["/idempotency_key"]),
    ("POST", "/jobs", {"endpoint": "target", "trigger": "IMMEDIATE"}, ["/idempotency_key"]),
    ("POST", "/jobs", one_shot("k", run_at="2030-01-01T00:00:00Z"), ["/run_at"]),
    ("POST", "/jobs", one_shot("k", trigger="DELAYED"), ["/run_at"]),
    ("POST", "/jobs", one_shot("k", trigger="CRON"), ["/cron", "/timezone"]),
]


@pytest.mark.parametrize(("method", "path", "body", "where"), WRONG)
def test_a_wrong_field_is_named_by_its_pointer(
    shared_api: Api, method: str, path: str, body: Any, where: list[str]
) -> None:
    assert sorted(pointers(problem(shared_api.send(method, path, json=body), 400, "INVALID_REQUEST"))) == sorted(where)


@pytest.mark.parametrize(
    "name", ["", "A", "a_b", "-a", "a-", "a--b", "a b", "a/b", "a\n", "é", "a" * 129, "..", "\u0661"]
)
def test_names_are_safe_in_a_url(shared_api: Api, name: str) -> None:
    for path, rest in (("/configs", {"values": {}}), ("/payload-specs", {"schema": {}}), ("/endpoints", {})):
        body = {**http_endpoint(), "name": name} if path == "/endpoints" else {"name": name, **rest}
        assert "/name" in pointers(problem(shared_api.post(path, body), 400, "INVALID_REQUEST"))


INSTANTS = [
    *(
        "",
        "now",
        "2030-01-01",
        "2030-01-01T00:00:00",
        "2030-01-01 00:00:00Z",
        "20300101T000000Z",
        "2030-W01-1T00:00:00Z",
    ),
    *("2030-13-01T00:00:00Z", "2030-02-30T00:00:00Z", "2030-01-01T24:01:00Z", "2030-01-01T00:00:60Z"),
    *("2030-01-01T00:00:00+25:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1969-12-31T23:59:59Z"),
    *("2200-01-01T00:00:00Z", "٢٠٣٠-01-01T00:00:00Z", "2030-01-01T00:00:00Z\n", "2030-01-01T00:00:00.1234567890Z"),
    *(0, 1893456000, True, ["2030-01-01T00:00:00Z"], {}),
]


@pytest.mark.parametrize("instant", INSTANTS)
def test_an_instant_needs_an_offset_and_a_sane_year(shared_api: Api, instant: Any) -> None:
    error = problem(shared_api.post("/jobs", one_shot("k", trigger="DELAYED", run_at=instant)), 400, "INVALID_REQUEST")
    assert pointers(error) == ["/run_at"]


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded", "application/xml"])
def test_another_content_type_is_415(shared_api: Api, content_type: str | None) -> None:
    problem(shared_api.send("POST", "/configs", data=b"{}", content_type=content_type), 415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_large_body_is_413(shared_api: Api) -> None:
    body = {"name": "x", "values": {"a": "v" * 10_000_000}}
    problem(shared_api.post("/configs", body), 413, "PAYLOAD_TOO_LARGE")


@pytest.mark.parametrize(
    "path",
    ["/jobs/a%00b", "/configs/%00", "/executions/x%00/logs", "/jobs?status=%00", "/jobs?endpoint=a%00", "/jobs?%00=1"],
)
def test_nul_in_the_url_is_refused(shared_api: Api, path: str) -> None:
    problem(shared_api.send("GET", path), 400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/payload-specs/nope", "PAYLOAD_SPEC_NOT_FOUND"),
        ("/configs/nope", "CONFIG_NOT_FOUND"),
        ("/secrets/nope", "SECRET_NOT_FOUND"),
        ("/endpoints/nope", "ENDPOINT_NOT_FOUND"),
        ("/jobs/nope", "JOB_NOT_FOUND"),
        ("/jobs/nope/executions", "JOB_NOT_FOUND"),
        ("/executions/nope", "EXECUTION_NOT_FOUND"),
        ("/executions/nope/attempts", "EXECUTION_NOT_FOUND"),
        ("/executions/nope/logs", "EXECUTION_NOT_FOUND"),
        ("/executions/%ED%A0%80", "EXECUTION_NOT_FOUND"),
        ("/nope", "NOT_FOUND"),
        ("/jobs/", "NOT_FOUND"),
        ("//jobs", "NOT_FOUND"),
        ("/configs/..%2Fjobs", "NOT_FOUND"),
    ],
)
def test_what_is_not_there_is_404(shared_api: Api, path: str, code: str) -> None:
    problem(shared_api.send("GET", path), 404, code)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("PUT", "/payload-specs/nope", "PAYLOAD_SPEC_NOT_FOUND"),
        ("PUT", "/configs/nope", "CONFIG_NOT_FOUND"),
        ("PUT", "/secrets/nope", "SECRET_NOT_FOUND"),
        ("PUT", "/endpoints/nope", "ENDPOINT_NOT_FOUND"),
        ("DELETE", "/payload-specs/nope", "PAYLOAD_SPEC_NOT_FOUND"),
        ("DELETE", "/configs/nope", "CONFIG_NOT_FOUND"),
        ("DELETE", "/secrets/nope", "SECRET_NOT_FOUND"),
        ("DELETE", "/endpoints/nope", "ENDPOINT_NOT_FOUND"),
        ("POST", "/jobs/nope/cancel", "JOB_NOT_FOUND"),
        ("POST", "/executions/nope/cancel", "EXECUTION_NOT_FOUND"),
    ],
)
def test_changing_what_is_not_there_is_404(shared_api: Api, method: str, path: str, code: str) -> None:
    bodies: dict[str, Any] = {
        "/payload-specs/nope": {"schema": {}},
        "/configs/nope": {"values": {}},
        "/secrets/nope": {"value": "v"},
        "/endpoints/nope": {key: value for key, value in http_endpoint().items() if key != "name"},
    }
    kwargs = {"json": bodies[path]} if method == "PUT" else {}
    problem(shared_api.send(method, path, **kwargs), 404, code)


def test_another_method_is_405(shared_api: Api) -> None:
    response = shared_api.send("PATCH", "/jobs")
    problem(response, 405, "METHOD_NOT_ALLOWED")
    assert {"GET", "POST"} <= set(response.headers["Allow"].replace(" ", "").split(","))


@pytest.mark.parametrize("given", ["abc", "A.b_c-1", "x" * 128])
def test_a_request_id_is_kept(shared_api: Api, given: str) -> None:
    response = shared_api.send("GET", "/nope", headers={"X-Request-ID": given})
    assert problem(response, 404, "NOT_FOUND")["request_id"] == given


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "é", "<script>", "a;b"])
def test_a_harmful_request_id_is_replaced(shared_api: Api, given: str) -> None:
    response = shared_api.send("GET", "/health/live", headers={"X-Request-ID": given})
    assert response.headers["X-Request-ID"].startswith("req_")


def test_an_unexpected_error_is_logged_and_not_told(
    app: Flask, api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def crash(*_: object) -> None:
        raise ZeroDivisionError("the password is hunter2")

    monkeypatch.setattr("app.api.jobs.views.get_job", crash)
    response = api.send("GET", "/jobs/x", headers={"X-Request-ID": "find-me"})
    error = problem(response, 500, "INTERNAL_ERROR")
    assert "hunter2" not in json.dumps(error)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "find-me" in record.getMessage()
    assert record.exc_info is not None


def test_a_statement_never_reaches_the_client(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(database: db.Database, _job_id: str) -> None:
        database.fetch(text("SELECT secret_column FROM nowhere"))

    monkeypatch.setattr("app.api.jobs.views.get_job", fail)
    response = api.get("/jobs/x")
    problem(response, 500, "INTERNAL_ERROR")
    assert "nowhere" not in response.get_data(as_text=True)


def test_a_value_the_database_refuses_is_the_clients_fault(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The safety net behind the checks of the body."""

    def fail(database: db.Database, _job_id: str) -> None:
        database.fetch(text("SELECT CAST('x' AS BIGINT)"))

    monkeypatch.setattr("app.api.jobs.views.get_job", fail)
    problem(api.get("/jobs/x"), 400, "INVALID_REQUEST")


def test_an_unreachable_database_is_503(settings: Settings) -> None:
    away = Settings(database_url="postgresql://nobody@127.0.0.1:1/none")
    with running(away) as app:
        response = Api(app, "te_a_b").get("/jobs")
    error = problem(response, 503, "SERVICE_UNAVAILABLE")
    assert error["retryable"]
    assert int(response.headers["Retry-After"]) >= 1


def test_a_client_that_went_away_in_the_middle_of_its_body(api: Api) -> None:
    class Broken(io.BytesIO):
        def read(self, *_: object) -> bytes:
            raise OSError("connection reset")

        readinto = read  # type: ignore[assignment]

    body = Broken(b'{"name": "x", "values": {}}')
    response = api.send("POST", "/configs", input_stream=body, content_type=JSON, content_length=27)
    problem(response, 400, "INVALID_REQUEST")


def test_health(app: Flask) -> None:
    anonymous = Api(app, None)
    assert anonymous.get("/health/live").json == {"status": "ok"}
    assert anonymous.get("/health/ready").json == {"status": "ok"}


def test_ready_needs_a_migrated_database(empty_database_url: str) -> None:
    with running(Settings(database_url=empty_database_url)) as app:
        anonymous = Api(app, None)
        assert anonymous.get("/health/live").status_code == 200
        error = problem(anonymous.get("/health/ready"), 503, "SERVICE_UNAVAILABLE")
        assert "db upgrade" in error["message"]


def test_the_store_is_asked_again_after_a_lost_connection(api: Api) -> None:
    """A pooled connection that the server closed is no error for the client."""
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
