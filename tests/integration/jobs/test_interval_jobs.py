"""Creating interval jobs: their first tick, and what is refused."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.integration.client import Api, pointers, problem
from tests.integration.registered import created, interval, register


def test_an_interval_job_fires_first_after_one_interval(api: Api) -> None:
    register(api)
    job = created(api, interval())
    assert (job["every"], job["fixed_delay"], job["catch_up"], job["overlap"]) == ("10s", False, "all", "allow")
    assert "cron" not in job
    wait = datetime.fromisoformat(job["next_run_at"]) - datetime.fromisoformat(job["starts_at"])
    assert wait == timedelta(seconds=10)
    assert api.get(f"/jobs/{job['job_id']}").json == job


def test_with_a_start_it_fires_first_at_the_start(api: Api) -> None:
    register(api)
    job = created(api, interval(every=90_000, starts_at="2090-01-01T00:00:00Z"))
    assert (job["every"], job["next_run_at"]) == ("90s", "2090-01-01T00:00:00Z")


@pytest.mark.parametrize(
    "every", ["10", "1.5s", "s", "", "-5s", "999ms", 999, 0, "367d", True, [], 1.5, "9" * 13 + "s"]
)
def test_an_interval_that_is_none(api: Api, every: Any) -> None:
    register(api)
    assert pointers(problem(api.post("/jobs", interval(every=every)), 400, "INVALID_REQUEST")) == ["/every"]


@pytest.mark.parametrize(
    ("changes", "where"),
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
def test_an_interval_job_that_cannot_be(api: Api, changes: dict[str, Any], where: str) -> None:
    register(api)
    assert pointers(problem(api.post("/jobs", interval(**changes)), 400, "INVALID_REQUEST")) == [where]
