"""GET /schedules/day."""

from sqlalchemy import text

from app.kernel.db import Database
from app.queue.jobs.active_schedules import ScheduleBounds, active_schedules
from app.queue.jobs.job_list import JobFilter
from tests.integration.client import Api, pointers, problem
from tests.integration.registered import created, cron, interval, one_shot, register

BERLIN = "Europe/Berlin"


def test_day_counts_the_starts_of_all_active_schedules(api: Api) -> None:
    register(api)
    register(api, "other")
    report = created(api, cron(cron="0 2 * * *", timezone=BERLIN, name="report"))["job_id"]
    hourly = created(api, cron(cron="0 * * * *", timezone=BERLIN, endpoint="other"))["job_id"]
    created(api, interval(every="30s", starts_at="2098-12-31T22:00:00Z", ends_at="2099-01-02T23:01:00Z"))
    paused = created(api, cron(cron="0 2 * * *", timezone=BERLIN))["job_id"]
    assert api.post(f"/jobs/{paused}/pause").status_code == 200
    created(api, one_shot("once"))
    found = api.get("/schedules/day", date="2099-01-03", zone=BERLIN).json
    assert (found["date"], found["zone"], found["start"], found["end"]) == (
        *("2099-01-03", BERLIN),
        *("2099-01-03T00:00:00+01:00", "2099-01-04T00:00:00+01:00"),
    )
    assert (found["counted"], found["starts"], found["is_complete"]) == (3, 1 + 24 + 2, True)
    assert (len(found["by_minute"]), sum(found["by_minute"]), found["by_minute"][0]) == (1440, 27, 3)
    assert [(each["at"], each["starts"], each["more"]) for each in found["busiest"]] == [
        ("2099-01-03T00:00:00+01:00", 3, 0),
        ("2099-01-03T02:00:00+01:00", 2, 0),
    ]
    assert [each["job_id"] for each in found["busiest"][1]["schedules"]] == [report, hourly], "the rarest first"
    listed = {each["job_id"]: each for each in found["schedules"]}
    assert listed[report] == {
        "job_id": report,
        "name": "report",
        "endpoint": "target",
        "starts": 1,
        "first_at": "2099-01-03T02:00:00+01:00",
        "last_at": "2099-01-03T02:00:00+01:00",
        "runs": [[120, 120, 1]],
        "is_estimate": False,
    }
    assert listed[hourly]["runs"] == [[0, 1380, 60]]


def test_day_of_a_filter_and_a_limit(api: Api) -> None:
    register(api)
    register(api, "other")
    wanted = created(api, cron(cron="0 2 * * *", endpoint="other", labels={"team": "a"}, name="x"))["job_id"]
    created(api, cron(cron="0 3 * * *"))
    for filter_ in ({"endpoint": "other"}, {"labels": "team=a"}, {"name": "x"}):
        found = api.get("/schedules/day", date="2099-01-03", zone="Asia/Kolkata", **filter_).json
        assert [each["job_id"] for each in found["schedules"]] == [wanted], filter_
    short = api.get("/schedules/day", date="2099-01-03", limit=1).json
    assert (short["counted"], short["starts"], len(short["schedules"]), short["busiest"]) == (2, 2, 1, [])


def test_day_reports_the_effect_of_a_clock_change(api: Api) -> None:
    register(api)
    for rule in ("30 2 * * *", "15 2 * * *", "*/30 2 * * *", "30 * * * *", "0 9 * * *"):
        created(api, cron(cron=rule, timezone=BERLIN))
    spring = api.get("/schedules/day", date="2027-03-28", zone="UTC").json["clock_changes"]
    assert spring == [
        {
            "at": "2027-03-28T01:00:00Z",
            "zone": BERLIN,
            "note": "Local times from 2027-03-28 02:00 to 2027-03-28 03:00 do not exist in Europe/Berlin.",
            "once": 3,
            "skipped": 1,
            "twice": 0,
        }
    ]
    (autumn,) = api.get("/schedules/day", date="2027-10-31", zone="UTC").json["clock_changes"]
    assert (autumn["once"], autumn["skipped"], autumn["twice"]) == (2, 0, 2)


def test_fixed_delay_counts_from_its_next_run(api: Api) -> None:
    register(api)
    created(api, interval(every="1h", fixed_delay=True, starts_at="2098-01-01T20:30:00Z"))
    found = api.get("/schedules/day", date="2098-01-01").json
    assert (found["starts"], found["schedules"][0]["is_estimate"]) == (4, True)
    assert found["schedules"][0]["runs"] == [[1230, 1410, 60]]


def test_day_is_today_when_absent(api: Api) -> None:
    found = api.get("/schedules/day").json
    assert found["start"].endswith("T00:00:00Z")
    assert (found["starts"], found["is_complete"]) == (0, True)


def test_refused_days_name_the_parameter(api: Api) -> None:
    for query, where in (
        ({"zone": "Mars"}, "zone"),
        ({"date": "tomorrow"}, "date"),
        ({"date": "1999-12-31"}, "date"),
        ({"limit": "0"}, "limit"),
        ({"labels": "a"}, "labels"),
    ):
        error = problem(api.get("/schedules/day", **query), 400, "INVALID_REQUEST")
        assert pointers(error) == [where]


def test_unreadable_schedule_is_left_out(api: Api, database: Database) -> None:
    register(api)
    broken = created(api, cron(cron="0 2 * * *"))["job_id"]
    created(api, cron(cron="0 3 * * *"))
    database.fetch(text("UPDATE jobs SET cron_timezone = 'Mars/Base' WHERE job_id = :id"), {"id": broken})
    found = api.get("/schedules/day", date="2099-01-03").json
    assert (found["counted"], found["starts"]) == (1, 1)


def test_read_of_schedules_ends_at_its_bounds(api: Api, database: Database) -> None:
    register(api)
    jobs = [created(api, cron())["job_id"] for _ in range(3)]
    found, is_complete = active_schedules(database, JobFilter(), ScheduleBounds(most=2))
    assert ({each.job_id for each in found} < set(jobs), len(found), is_complete) == (True, 2, False)
    assert active_schedules(database, JobFilter(), ScheduleBounds(most=3))[1]
