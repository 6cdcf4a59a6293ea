"""POST /schedules/simulate."""

from typing import Any

import pytest

from app.features.simulate import api as simulate_api
from tests.cases import each_case
from tests.integration.client import Api, pointers, problem
from tests.integration.registered import created, cron, interval, one_shot, register

START = "2030-01-01T00:00:00Z"
OUTAGE = {"start": "2030-01-01T06:00:00Z", "end": "2030-01-01T08:00:00Z"}


def simulated(api: Api, **body: Any) -> dict[str, Any]:
    response = api.post("/schedules/simulate", {"start": START} | body)
    assert response.status_code == 200, response.get_data(as_text=True)
    found: dict[str, Any] = response.json
    return found


def test_day_of_the_stored_schedules_is_simulated(api: Api) -> None:
    register(api)
    register(api, "other")
    report = created(api, cron(cron="30 9 * * *", timezone="UTC", name="report", starts_at=START))["job_id"]
    beat = created(api, interval(every="30s", starts_at=START, endpoint="other"))["job_id"]
    found = simulated(api)
    assert {each["job_id"]: (each["name"], each["starts"]) for each in found["schedules"]} == {
        report: ("report", 1),
        beat: (beat, 2880),
    }
    assert (found["start"], found["end"]) == (START, "2030-01-02T00:00:00Z")
    assert found["total"]["starts"] == sum(each["starts"] for each in found["hours"]) == 2881
    assert found["collisions"] == [{"at": "2030-01-01T09:30:00Z", "starts": 2}]
    assert (found["left_out"], found["is_complete"]) == ([], True)
    for filter_ in ({"endpoint": "target"}, {"name": "report"}, {"jobs": [report]}):
        assert simulated(api, **filter_, length="7d")["total"]["starts"] == 7, filter_


def test_simulation_of_an_outage_follows_the_given_rules(api: Api) -> None:
    rule = {"cron": "* * * * *", "outage": OUTAGE}
    assert simulated(api, **rule)["total"] == {
        "starts": 24 * 60, "made_up": 120, "skipped_catch_up": 0, "skipped_overlap": 0,
    }  # fmt: skip
    latest = simulated(api, **rule, catch_up="latest")["total"]
    assert (latest["made_up"], latest["skipped_catch_up"]) == (1, 119)
    most = simulated(api, **rule, catch_up="all", max_catch_up=10)["total"]
    assert (most["made_up"], most["skipped_catch_up"]) == (10, 110)
    skip = simulated(api, every="1m", takes="90s", overlap="skip")["total"]
    assert skip["starts"] == skip["skipped_overlap"] == 720


def test_simulation_names_the_schedules_that_it_leaves_out(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    register(api)
    job_id = created(api, cron())["job_id"]
    monkeypatch.setattr(simulate_api, "MAX_SECONDS", 0.0)
    found = simulated(api)
    assert found["left_out"] == [{"job_id": job_id, "name": job_id, "reason": "The simulation ended after 0 seconds."}]
    assert (found["schedules"], found["is_complete"]) == ([], False)


@each_case(
    ("body", "where"),
    [
        ({"cron": "61 * * * *"}, "/cron"),
        ({"cron": "0 0 * * *", "timezone": "Mars"}, "/timezone"),
        ({"every": "1ms"}, "/every"),
        ({"every": "1s", "cron": "* * * * *"}, "/every"),
        ({"every": "1s", "endpoint": "target"}, "/endpoint"),
        ({"every": "1s", "timezone": "UTC"}, "/timezone"),
        ({"every": "1s", "length": "8d"}, "/length"),
        ({"every": "1s", "length": "0s"}, "/length"),
        ({"every": "1s", "length": "7h", "outage": OUTAGE}, "/outage/end"),
        ({"every": "1s", "start": "2030-01-01T07:00:00Z", "outage": OUTAGE}, "/outage/start"),
        ({"every": "1s", "max_catch_up": 5}, "/max_catch_up"),
        ({"jobs": ["job_missing"]}, "/jobs/0"),
    ],
)
def test_refused_simulations_name_the_field(api: Api, body: dict[str, Any], where: str) -> None:
    response = api.post("/schedules/simulate", {"start": START} | body)
    assert response.status_code in {400, 422}
    assert pointers(response.json["error"]) == [where], body


def test_only_active_repeating_jobs_can_be_named(api: Api) -> None:
    register(api)
    once, paused = created(api, one_shot("once"))["job_id"], created(api, cron())["job_id"]
    assert api.post(f"/jobs/{paused}/pause").status_code == 200
    error = problem(api.post("/schedules/simulate", {"jobs": [once, paused]}), 400, "INVALID_REQUEST")
    assert pointers(error) == ["/jobs/0", "/jobs/1"]
