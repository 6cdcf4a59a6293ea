"""Creation of interval jobs: first tick, catch-up rules, invalid intervals."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.cases import each_case
from tests.integration.client import Api, pointers, problem
from tests.integration.registered import created, interval, register


def test_first_tick_without_a_start_is_after_one_interval(api: Api) -> None:
    register(api)
    job = created(api, interval())
    assert (job["every"], job["fixed_delay"], job["catch_up"], job["overlap"]) == ("10s", False, "all", "allow")
    assert "cron" not in job
    wait = datetime.fromisoformat(job["next_run_at"]) - datetime.fromisoformat(job["starts_at"])
    assert wait == timedelta(seconds=10)
    assert api.get(f"/jobs/{job['job_id']}").json == job


def test_first_tick_with_a_start_is_the_start(api: Api) -> None:
    register(api)
    job = created(api, interval(every=90_000, starts_at="2090-01-01T00:00:00Z"))
    assert (job["every"], job["next_run_at"]) == ("90s", "2090-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({}, ("all", 100)),
        ({"catch_up": "all"}, ("all", 100)),
        ({"max_catch_up": 7}, ("all", 7)),
        ({"max_catch_up": None}, ("all", None)),
        ({"catch_up": "latest"}, ("latest", None)),
        ({"catch_up": "none"}, ("none", None)),
    ],
)
def test_max_catch_up_has_a_default_for_each_catch_up_rule(
    api: Api, given: dict[str, Any], stored: tuple[str, int | None]
) -> None:
    register(api)
    job = created(api, interval(**given))
    assert (job["catch_up"], job["max_catch_up"]) == stored


def test_change_of_the_catch_up_rule_resets_max_catch_up(api: Api) -> None:
    register(api)
    job = created(api, interval(max_catch_up=7))
    changes: list[tuple[dict[str, Any], tuple[str, int | None]]] = [
        ({"every": "20s"}, ("all", 7)),
        ({"catch_up": "latest"}, ("latest", None)),
        ({"every": "30s"}, ("latest", None)),
        ({"catch_up": "all"}, ("all", 100)),
        ({"max_catch_up": None}, ("all", None)),
        ({"every": "40s"}, ("all", None)),
    ]
    for change, stored in changes:
        job = api.put(f"/jobs/{job['job_id']}", change).json
        assert (job["catch_up"], job["max_catch_up"]) == stored


def test_shortest_interval_is_10_milliseconds(api: Api) -> None:
    register(api)
    job = created(api, interval(every="10ms"))
    assert job["every"] == "10ms"
    wait = datetime.fromisoformat(job["next_run_at"]) - datetime.fromisoformat(job["starts_at"])
    assert wait == timedelta(milliseconds=10)


@each_case("every", ["10", "1.5s", "s", "", "-5s", "9ms", 9, 0, "367d", True, [], 1.5, "9" * 13 + "s"])
def test_invalid_interval_is_refused(registered: Api, every: Any) -> None:
    assert pointers(problem(registered.post("/jobs", interval(every=every)), 400, "INVALID_REQUEST")) == ["/every"]


@each_case(
    ("changes", "pointer"),
    [
        ({"cron": "* * * * *"}, "/cron"),
        ({"every": None}, "/every"),
        ({"max_catch_up": 3, "catch_up": "latest"}, "/max_catch_up"),
        ({"max_catch_up": 1001}, "/max_catch_up"),
        ({"catch_up": "ALL"}, "/catch_up"),
        ({"overlap": "queue"}, "/overlap"),
        ({"fixed_delay": "yes"}, "/fixed_delay"),
        ({"fixed_delay": 1}, "/fixed_delay"),
        ({"starts_at": "2090-01-02T00:00:00Z", "ends_at": "2090-01-01T00:00:00Z"}, "/ends_at"),
        ({"ends_at": "2020-01-01T00:00:00Z"}, "/every"),
    ],
)
def test_invalid_interval_job_is_refused(registered: Api, changes: dict[str, Any], pointer: str) -> None:
    assert pointers(problem(registered.post("/jobs", interval(**changes)), 400, "INVALID_REQUEST")) == [pointer]
