"""Reads of executions, attempts and logs."""

from app.kernel.db import Database
from tests import rows
from tests.integration.client import Api, pointers, problem, read_all_pages
from tests.integration.registered import INPUT, created, cron, one_shot, register


def test_execution_has_its_fields_and_the_input_of_its_job(api: Api) -> None:
    register(api, retry_policy={"max_attempts": 3})
    job = created(api, one_shot("k"))
    execution = api.get(f"/executions/{job['execution']['execution_id']}").json
    assert execution | {"created_at": "", "run_at": "", "scheduled_at": ""} == {
        "execution_id": job["execution"]["execution_id"],
        "job_id": job["job_id"],
        "endpoint": "target",
        "endpoint_type": "HTTP",
        "endpoint_version": 1,
        "idempotency_key": "k",
        "queue": "http",
        "priority": 128,
        "limit_key": None,
        "status": "QUEUED",
        "input": INPUT,
        "output": None,
        "last_error": None,
        "attempt_count": 0,
        "max_attempts": 3,
        "worker_id": None,
        "scheduled_at": "",
        "run_at": "",
        "started_at": None,
        "completed_at": None,
        "duration_ms": None,
        "cancel_requested_at": None,
        "abort_requested_at": None,
        "workflow": None,
        "created_at": "",
    }


def test_attempts_are_listed_latest_first(api: Api, database: Database) -> None:
    register(api)
    execution_id = created(api, one_shot("k"))["execution"]["execution_id"]
    path = f"/executions/{execution_id}/attempts"
    assert api.get(path).json == {"items": [], "cursor": None}
    error = {"type": "HTTP_ERROR", "status_code": 503, "message": "no", "retryable": True}
    for number in range(1, 12):
        rows.add_attempt(database, execution_id, number, "FAILED", error=error)
    rows.add_attempt(database, execution_id, 12, "SUCCESS", output={"status_code": 200, "body": "OK"})
    latest = api.get(path, limit=1).json["items"][0]
    assert (latest["attempt_number"], latest["status"], latest["error"]) == (12, "SUCCESS", None)
    assert latest["output"] == {"status_code": 200, "body": "OK"}
    assert latest["duration_ms"] == 1000
    assert api.get(path).json["items"][1]["error"] == error
    assert read_all_pages(api, path, "attempt_number", limit=5) == list(range(12, 0, -1))


def test_logs_are_filtered_by_attempt(api: Api, database: Database) -> None:
    register(api)
    execution_id = created(api, one_shot("k"))["execution"]["execution_id"]
    path = f"/executions/{execution_id}/logs"
    for number in range(6):
        rows.add_log(database, execution_id, number, "INFO" if number % 2 else "WARN", attempt=number // 2 + 1)
    assert read_all_pages(api, path, "message", limit=1, attempt_number=2) == ["line 3", "line 2"]
    assert read_all_pages(api, path, "message", attempt_number=3, level="WARN") == ["line 4"]
    assert read_all_pages(api, path, "message", attempt_number=4) == []
    for bad in ("0", "-1", "x", "1.0", ""):
        error = problem(api.get(path, attempt_number=bad), 400, "INVALID_REQUEST")
        assert pointers(error) == ["attempt_number"]
    problem(api.get("/executions/exec_0/logs", attempt_number=1), 404, "EXECUTION_NOT_FOUND")


def test_logs_are_listed_latest_first_and_filtered_by_level(api: Api, database: Database) -> None:
    register(api)
    execution_id = created(api, one_shot("k"))["execution"]["execution_id"]
    path = f"/executions/{execution_id}/logs"
    assert api.get(path).json == {"items": [], "cursor": None}
    levels = ["INFO", "WARN", "ERROR", "DEBUG", "INFO", "INFO"]
    for number, level in enumerate(levels):
        rows.add_log(database, execution_id, number, level)
    assert read_all_pages(api, path, "message", limit=4) == [f"line {number}" for number in range(5, -1, -1)]
    assert read_all_pages(api, path, "message", limit=1, level="INFO") == ["line 5", "line 4", "line 0"]
    assert read_all_pages(api, path, "level", level="WARN") == ["WARN"]
    line = api.get(path, level="ERROR").json["items"][0]
    assert set(line) == {"log_id", "execution_id", "attempt_number", "level", "message", "logged_at"}
    assert pointers(problem(api.get(path, level="info"), 400, "INVALID_REQUEST")) == ["level"]


def test_log_has_a_line_for_the_delivered_attempt(api: Api, database: Database) -> None:
    register(api)
    execution_id = created(api, one_shot("k"))["execution"]["execution_id"]
    path = f"/executions/{execution_id}/logs"
    rows.add_log(database, execution_id, 0, "WARN", attempt=1)
    rows.add_attempt(database, execution_id, 1, "FAILED", error={"type": "HTTP_ERROR"})
    rows.add_attempt(database, execution_id, 2, "SUCCESS", output={"status_code": 200})
    rows.add_log(database, execution_id, 2, "INFO", attempt=2)
    delivered = "attempt 2 of 1 delivered over HTTP"
    for filters in ({}, {"limit": 1}):
        assert read_all_pages(api, path, "message", **filters) == ["line 2", delivered, "line 0"]
    assert read_all_pages(api, path, "message", limit=1, attempt_number=2) == ["line 2", delivered]
    assert read_all_pages(api, path, "message", attempt_number=1) == ["line 0"]
    assert read_all_pages(api, path, "message", limit=1, level="INFO") == ["line 2", delivered]
    assert read_all_pages(api, path, "message", level="WARN") == ["line 0"]
    assert {line["log_id"][:4] for line in api.get(path).json["items"]} == {"log_"}


def test_executions_of_a_job_are_filtered_by_status(api: Api, database: Database) -> None:
    register(api)
    job = created(api, cron())
    path = f"/jobs/{job['job_id']}/executions"
    assert api.get(path).json == {"items": [], "cursor": None}
    ticks = [
        rows.add_tick(database, job["job_id"], status)
        for status in ("SUCCESS", "FAILED", "SUCCESS", "QUEUED", "RUNNING")
    ]
    assert read_all_pages(api, path, "execution_id", limit=2) == ticks[::-1]
    assert read_all_pages(api, path, "execution_id", limit=1, status="SUCCESS") == [ticks[2], ticks[0]]
    assert read_all_pages(api, path, "execution_id", status="CANCELLED") == []
    assert "input" not in api.get(path).json["items"][0]
    assert pointers(problem(api.get(path, status="DONE"), 400, "INVALID_REQUEST")) == ["status"]


def test_executions_are_filtered_by_each_field(api: Api, database: Database) -> None:
    for name in ("target", "other"):
        register(api, name)
    one, two = created(api, one_shot("one")), created(api, one_shot("two", endpoint="other"))
    job = created(api, cron())
    ticks = [rows.add_tick(database, job["job_id"], status) for status in ("SUCCESS", "FAILED")]
    first, second = (each["execution"]["execution_id"] for each in (one, two))

    def found(path: str = "/executions", **filters: str) -> list[str]:
        return read_all_pages(api, path, "execution_id", limit=1, **filters)

    assert found() == [*ticks[::-1], second, first]
    assert found(status="QUEUED") == [second, first]
    assert found(endpoint="other") == [second]
    assert found(job_id=job["job_id"]) == ticks[::-1]
    assert found(job_id=job["job_id"], status="FAILED") == [ticks[1]]
    assert found(job_id="job_0") == []
    middle = api.get(f"/executions/{second}").json["created_at"]
    assert found(created_after=middle) == ticks[::-1]
    assert found(created_before=middle) == [first]
    job_path = f"/jobs/{job['job_id']}/executions"
    assert found(job_path, created_before=middle) == []
    assert found(job_path, created_after=middle, endpoint="target", status="SUCCESS") == [ticks[0]]
    assert found(job_path, endpoint="other") == []
    assert "input" not in api.get("/executions").json["items"][0]
    assert pointers(problem(api.get("/executions", created_after="today"), 400, "INVALID_REQUEST")) == ["created_after"]
    assert pointers(problem(api.get(job_path, job_id=job["job_id"]), 400, "INVALID_REQUEST")) == ["job_id"]
