"""Editor of a schedule: its changes are shown before they are made."""

import pytest
from flask import Flask

from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor
from tests.integration.registered import created, cron, interval, one_shot, register

BERLIN = "Europe/Berlin"


@pytest.fixture
def visitor(app: Flask, database: Database) -> Visitor:
    return Visitor(app, Scope.READ, Scope.JOBS_WRITE)


@pytest.fixture
def job_id(api: Api) -> str:
    register(api)
    changes = {"cron": "30 2 * * *", "timezone": BERLIN, "name": "report", "labels": {"team": "a"}, "priority": 7}
    found: str = created(api, cron(**changes))["job_id"]
    return found


def test_changes_are_shown_and_then_made(api: Api, visitor: Visitor, job_id: str) -> None:
    path, do = f"/console/jobs/{job_id}/edit", f"/console/do/put/jobs/{job_id}"
    page = visitor.get(path)
    for part in ("30 2 * * *", "At 02:30 every day", 'value="team=a"', "only the latest missed run"):
        assert part in page, part
    assert page.count('<svg class="ticks"') == 5, "a picture for each rule"
    typed = {"cron": "0 9-17 * * *", "timezone": BERLIN, "catch_up": "latest", "overlap": "skip", "labels": "team=b"}
    typed |= {"name": "", "input": '{"user_id": "u_2"}', "priority": "7"}
    seen = visitor.send(do, visitor.form(path, do) | typed | {"do": "check"})
    shown = seen.get_data(as_text=True)
    assert seen.status_code == 200
    for part in ("What changes", "now: 1 start", "then: 9 starts", "labels.team", "input.user_id", "Save version 2"):
        assert part in shown, part
    assert api.get(f"/jobs/{job_id}").json["status"] == "ACTIVE", "nothing is changed yet"
    saved = visitor.send(do, visitor.form(path, do) | typed | {"do": "save"})
    assert saved.status_code == 303
    after = api.get("/jobs" + saved.headers["Location"].removeprefix("/console/jobs")).json
    wanted = {"cron": "0 9-17 * * *", "catch_up": "latest", "overlap": "skip", "labels": {"team": "b"}, "name": None}
    assert after | wanted | {"version": 2, "priority": 7, "input": {"user_id": "u_2"}, "max_catch_up": None} == after
    assert "Version 2 is in effect" in visitor.get(saved.headers["Location"])


def test_faults_are_shown_at_their_fields(api: Api, visitor: Visitor, job_id: str) -> None:
    path, do = f"/console/jobs/{job_id}/edit", f"/console/do/put/jobs/{job_id}"
    answer = visitor.send(do, visitor.form(path, do) | {"cron": "61 * * * *", "timezone": BERLIN, "input": "{"})
    page = answer.get_data(as_text=True)
    assert answer.status_code == 422
    assert "Must be JSON" in page.partition('id="f-input"')[2]
    answer = visitor.send(do, visitor.form(path, do) | {"cron": "61 * * * *", "timezone": BERLIN, "input": "{}"})
    assert (answer.status_code, "is not valid as minute" in answer.get_data(as_text=True)) == (422, True)


def test_long_rule_of_the_api_has_a_preview(api: Api, visitor: Visitor, job_id: str) -> None:
    minutes, hours = (",".join(map(str, range(number))) for number in (60, 24))
    changed = api.put(f"/jobs/{job_id}", {"cron": f"{minutes} {hours} * * *"})
    assert changed.status_code == 200
    page = visitor.get(f"/console/jobs/{changed.json['job_id']}/edit")
    assert "Must have at most" not in page
    assert "every minute" in page.lower()


def test_two_editors_do_not_overwrite_each_other(api: Api, visitor: Visitor, job_id: str) -> None:
    path, do = f"/console/jobs/{job_id}/edit", f"/console/do/put/jobs/{job_id}"
    form = visitor.form(path, do) | {"cron": "0 3 * * *", "timezone": BERLIN, "input": "{}", "do": "save"}
    assert api.put(f"/jobs/{job_id}", {"cron": "0 4 * * *"}).status_code == 200
    answer = visitor.send(do, form)
    assert answer.status_code == 409
    assert "no longer in effect" in answer.get_data(as_text=True)


def test_interval_is_edited(api: Api, visitor: Visitor) -> None:
    register(api)
    job_id = created(api, interval(every="10m"))["job_id"]
    path, do = f"/console/jobs/{job_id}/edit", f"/console/do/put/jobs/{job_id}"
    assert 'value="10m"' in visitor.get(path)
    saved = visitor.send(do, visitor.form(path, do) | {"every": "5m", "fixed_delay": "on", "input": "{}", "do": "save"})
    after = api.get("/jobs" + saved.headers["Location"].removeprefix("/console/jobs")).json
    assert (after["every"], after["fixed_delay"]) == ("5m", True)


def test_only_schedules_are_edited_and_only_by_their_scope(app: Flask, api: Api, visitor: Visitor, job_id: str) -> None:
    once = created(api, one_shot("x"))["job_id"]
    assert "Only jobs by cron" in visitor.get(f"/console/jobs/{once}/edit", 409)
    visitor.get("/console/jobs/job_missing/edit", 404)
    Visitor(app, Scope.READ).get(f"/console/jobs/{job_id}/edit", 403)
