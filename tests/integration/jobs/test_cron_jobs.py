"""Creation of cron jobs: first tick, start and end, invalid schedules."""

from datetime import UTC, datetime, timedelta
from typing import Any

from app.kernel.db import Database
from tests.cases import each_case
from tests.integration.client import Api, pointers, problem
from tests.integration.jobs.stored import stored
from tests.integration.registered import (
    INPUT,
    created,
    cron,
    register,
    register_all,
)


def test_cron_job_is_created_with_its_first_tick(api: Api, database: Database) -> None:
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
        "name": None,
        "labels": {},
        "queue": None,
        "priority": None,
        "limit_key": None,
        "callbacks": None,
        "callback_of": None,
        "cron": "0 9 * * MON",
        "timezone": "Asia/Kolkata",
        "starts_at": "2090-03-13T00:00:00Z",
        "ends_at": None,
        "catch_up": "all",
        "max_catch_up": 100,
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


def test_first_tick_may_equal_the_start(api: Api) -> None:
    register(api)
    job = created(api, cron(cron="0 9 * * *", timezone="UTC", starts_at="2090-01-01T09:00:00Z"))
    assert job["next_run_at"] == "2090-01-01T09:00:00Z"


def test_start_in_the_past_counts_as_now(api: Api) -> None:
    """A new job has no missed ticks to catch up, even if its start is years ago."""
    register(api)
    job = created(api, cron(cron="* * * * *", timezone="UTC", starts_at="2020-01-01T00:00:00Z"))
    wait = datetime.fromisoformat(job["next_run_at"]) - datetime.fromisoformat(job["created_at"])
    assert timedelta(seconds=-5) < wait <= timedelta(seconds=65)
    assert job["starts_at"] == "2020-01-01T00:00:00Z"


def test_cron_job_without_a_start_starts_now(api: Api) -> None:
    register(api)
    job = created(api, cron())
    started = datetime.fromisoformat(job["starts_at"]) - datetime.fromisoformat(job["created_at"])
    assert abs(started) < timedelta(seconds=5)


@each_case(
    ("changes", "status", "code", "pointer"),
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
        # The tick at `ends_at` does not run, so this schedule has no tick.
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
def test_invalid_cron_job_is_refused(
    registered: Api, changes: dict[str, Any], status: int, code: str, pointer: str
) -> None:
    assert pointers(problem(registered.post("/jobs", cron(**changes)), status, code)) == [pointer]
    assert registered.get("/jobs").json["items"] == []
