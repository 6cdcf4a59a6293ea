"""POST /cron/preview: the next runs of a schedule, without storing anything."""

from datetime import UTC, datetime
from typing import Any

import pytest

from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.cases import each_case
from tests.integration.client import Api, pointers, problem

REQUEST = {"cron": "0 9 * * MON", "timezone": "Asia/Kolkata", "count": 2, "after": "2026-03-15T10:00:00Z"}


def test_runs_have_utc_and_local_times(shared_api: Api) -> None:
    response = shared_api.post("/cron/preview", REQUEST)
    assert response.status_code == 200
    assert response.json == {
        "cron": "0 9 * * MON",
        "timezone": "Asia/Kolkata",
        "description": "At 09:00 on Monday",
        "after": "2026-03-15T10:00:00Z",
        "runs": [
            {"run_at": "2026-03-16T03:30:00Z", "local_time": "2026-03-16T09:00:00+05:30", "note": None},
            {"run_at": "2026-03-23T03:30:00Z", "local_time": "2026-03-23T09:00:00+05:30", "note": None},
        ],
    }


def test_run_moved_by_a_clock_change_has_a_note(shared_api: Api) -> None:
    changed = REQUEST | {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "after": "2026-03-28T12:00:00Z"}
    moved, usual = shared_api.post("/cron/preview", changed).json["runs"]
    assert moved["local_time"] == "2026-03-29T03:00:00+02:00"
    assert "do not exist" in moved["note"]
    assert usual["note"] is None


def test_default_is_ten_runs_from_now(shared_api: Api) -> None:
    answer = shared_api.post("/cron/preview", {"cron": "@hourly", "timezone": "UTC"}).json
    assert len(answer["runs"]) == 10
    assert answer["runs"][0]["run_at"] > answer["after"]
    assert abs(datetime.fromisoformat(answer["after"]) - datetime.now(UTC)).total_seconds() < 60


def test_preview_returns_100_runs_of_a_schedule_on_leap_days(shared_api: Api) -> None:
    leap = {"cron": "0 0 29 2 *", "timezone": "UTC", "count": 100}
    assert len(shared_api.post("/cron/preview", leap).json["runs"]) == 100


@each_case(
    ("change", "pointer"),
    [
        ({"count": 0}, "/count"),
        ({"count": 101}, "/count"),
        ({"count": "5"}, "/count"),
        ({"count": 2.5}, "/count"),
        ({"count": True}, "/count"),
        ({"count": None}, "/count"),
        ({"after": "tomorrow"}, "/after"),
        ({"timezone": "Mars/Olympus"}, "/timezone"),
        ({"timezone": ""}, "/timezone"),
        ({"cron": None}, "/cron"),
        ({"until": "2030-01-01T00:00:00Z"}, "/until"),
    ],
)
def test_invalid_field_is_named(shared_api: Api, change: dict[str, Any], pointer: str) -> None:
    assert pointers(problem(shared_api.post("/cron/preview", REQUEST | change), 400, "INVALID_REQUEST")) == [pointer]


@pytest.mark.parametrize(
    "cron",
    ["0 0 L * *", "0 0 15W * *", "0 0 * * 1#2", "0 0 ? * MON", "0 0 12 * * ?", "0 0 12 1 1 ? 2030", "0 0 30 2 *"],
)
def test_unsupported_expression_is_refused_with_the_allowed_syntax(shared_api: Api, cron: str) -> None:
    error = problem(shared_api.post("/cron/preview", REQUEST | {"cron": cron}), 422, "INVALID_CRON")
    assert pointers(error) == ["/cron"]
    assert "never fires" in error["message"] or "Use five fields: minute (0-59)" in error["message"]


def test_preview_needs_the_scope_read(api: Api, database: Database) -> None:
    reader = Api(api.app, api_keys.create(database, "reader", [Scope.READ], None))
    assert reader.post("/cron/preview", REQUEST).status_code == 200
    writer = Api(api.app, api_keys.create(database, "writer", [Scope.JOBS_WRITE], None))
    problem(writer.post("/cron/preview", REQUEST), 403, "FORBIDDEN")
