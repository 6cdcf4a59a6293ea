"""Pages of schedules: the day."""

import re

import pytest
from flask import Flask
from sqlalchemy import text

from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor
from tests.integration.registered import created, cron, interval, register
from tests.rows import add_tick

PATH = "/console/schedules"
BERLIN = "Europe/Berlin"


@pytest.fixture
def visitor(app: Flask, database: Database) -> Visitor:
    return Visitor(app, Scope.READ, Scope.JOBS_WRITE)


def test_day_shows_the_schedules_with_their_starts(api: Api, visitor: Visitor) -> None:
    assert "No active schedule matches" in visitor.get(PATH)
    register(api)
    created(api, cron(cron="0 2 * * *", timezone=BERLIN, name="nightly <b>"))
    created(api, cron(cron="0 2 1 * *", timezone=BERLIN, name="monthly"))
    created(api, interval(every="10s", name="beat"))
    page = visitor.get(f"{PATH}?date=2099-01-01&zone={BERLIN}")
    for part in (
        "nightly &lt;b&gt;",
        "At 02:00 every day",
        "every 10s",
        "8,642",
        "Thursday, 1 January 2099",
        "M120 5H124",
    ):
        assert part in page, part
    assert "monthly" not in visitor.get(f"{PATH}?name=beat")


def test_overdue_schedules_come_first(api: Api, visitor: Visitor, database: Database) -> None:
    register(api)
    soon = created(api, cron(cron="* * * * *", name="soon"))["job_id"]
    late = created(api, cron(cron="0 2 * * *", name="zz-late"))["job_id"]
    database.fetch(
        text("UPDATE jobs SET cron_next_run_at = now() - INTERVAL '1 hour' WHERE job_id = :id"),
        {"id": late},
    )
    page = visitor.get(f"{PATH}?sort=name")
    assert page.index(f'<tr id="{late}"') < page.index(f'<tr id="{soon}"')
    assert "overdue" in page


def test_results_of_the_last_runs_are_listed_latest_at_the_right(
    api: Api, visitor: Visitor, database: Database
) -> None:
    register(api)
    many, few = (created(api, cron(name=name))["job_id"] for name in ("many", "few"))
    created(api, cron(name="none"))
    statuses = ["FAILED", "SUCCESS", *["CANCELLED"] * 3, "SUCCESS", "FAILED", "SUCCESS"]
    for job, status in [*((many, each) for each in statuses), (few, "FAILED"), (few, "QUEUED")]:
        add_tick(database, job, status)
    page = visitor.get(PATH)
    last_seven = "success, cancelled, cancelled, cancelled, success, failed, success"
    for words in (f"Last runs of many: {last_seven}", "Last runs of few: failed"):
        assert f'aria-label="{words}"' in page, words
    assert "Last runs of none" not in page


def test_ticks_that_started_no_run_are_counted_in_the_list_and_on_the_page_of_the_job(
    api: Api, visitor: Visitor, database: Database
) -> None:
    register(api)
    job = created(api, cron(name="nightly"))["job_id"]
    assert "left out" not in visitor.get(PATH)
    skip = text("UPDATE jobs SET skipped_catch_up = 3, skipped_overlap = 2 WHERE job_id = :id")
    database.fetch(skip, {"id": job})
    words = "3 missed, 2 because an earlier run was unfinished"
    assert f'title="{words}">5 left out<' in visitor.get(PATH)
    assert f"Left out so far: {words}." in visitor.get(f"/console/jobs/{job}")


def test_clock_change_of_the_day_is_shown(api: Api, visitor: Visitor) -> None:
    register(api)
    created(api, cron(cron="30 2 * * *", timezone=BERLIN))
    page = visitor.get(f"{PATH}?date=2027-03-28&zone={BERLIN}")
    assert "do not exist in Europe/Berlin. 1 schedule starts once for all of them." in page


def test_paused_schedules_are_listed_and_resumed(api: Api, visitor: Visitor) -> None:
    register(api)
    job_id = created(api, cron(name="report"))["job_id"]
    do = f"/console/do/post/jobs/{job_id}"
    assert "is paused" in visitor.act(PATH, f"{do}/pause")
    assert f'id="paused-{job_id}"' in visitor.get(PATH)
    visitor.act(PATH, f"{do}/resume")
    assert api.get(f"/jobs/{job_id}").json["status"] == "ACTIVE"


def test_faults_of_the_address_are_named(visitor: Visitor) -> None:
    for query, words in (("zone=Mars", "time zone"), ("date=x", "Must be a date"), ("date=1900-01-01", "Must be from")):
        assert words in visitor.get(f"{PATH}?{query}", 400)


def test_spread_moves_schedules_of_a_minute_and_refuses_a_changed_schedule(api: Api, visitor: Visitor) -> None:
    register(api)
    day = f"date=2099-01-01&zone={BERLIN}"
    jobs = [created(api, cron(cron="0 2 * * *", timezone=BERLIN, name=f"n{n}"))["job_id"] for n in range(3)]
    created(api, interval(every="1m", name="beat"))
    assert f"{PATH}/spread?" in visitor.get(f"{PATH}?{day}")
    path, do = f"{PATH}/spread?{day}&minute=120", "/console/do/put/spread"
    page = visitor.get(path)
    moves = re.findall(r'name="move" value="([^"]+)"', page)
    assert len(moves) == 2
    assert "does not divide a day" in page
    assert "<code>1 2 * * *</code>" in page
    form = visitor.form(path, do)
    changed, left = (each.partition(" ")[0] for each in moves)
    assert api.put(f"/jobs/{changed}", {"cron": "0 4 * * *"}).status_code == 200
    answer = visitor.send(do, form | {"move": moves})
    shown = answer.get_data(as_text=True)
    assert answer.status_code == 200, shown
    assert (shown.count("not moved."), shown.count("moved to <code>")) == (1, 1), shown
    newest = api.get(f"/jobs/{api.get(f'/jobs/{left}').json['replaced_by_id']}").json
    assert (newest["version"], newest["cron"]) == (2, moves[1].partition(" ")[2].replace("-", "") + " 2 * * *")
    stays = next(each for each in jobs if each not in {changed, left})
    assert api.get(f"/jobs/{stays}").json["status"] == "ACTIVE"
    assert visitor.send(do, visitor.form(path, do)).status_code == 400
    far = visitor.send(do, visitor.form(path, do) | {"move": f"{stays} 60"})
    assert "cannot be moved by so many minutes" in far.get_data(as_text=True)


def test_spread_names_cancelled_executions_and_a_second_send_names_the_moved_schedules(
    api: Api, visitor: Visitor, database: Database
) -> None:
    register(api)
    job_ids = {created(api, cron(cron="0 2 * * *", timezone=BERLIN, name=f"n{n}"))["job_id"] for n in range(2)}
    path, do = f"{PATH}/spread?date=2099-01-01&zone={BERLIN}&minute=120", "/console/do/put/spread"
    (move,) = re.findall(r'name="move" value="([^"]+)"', visitor.get(path))
    job_id = move.partition(" ")[0]
    assert "that have not begun." not in visitor.get(path)
    for _ in range(2):
        add_tick(database, job_id)
    assert "Cancels 2 that have not begun." in visitor.get(path)
    form = visitor.form(path, do) | {"move": move}
    answers = [visitor.send(do, form).get_data(as_text=True) for _ in range(2)]
    assert [(text.count("not moved."), text.count("moved to <code>")) for text in answers] == [(0, 1), (0, 1)]
    newer = api.get(f"/jobs/{job_id}").json["replaced_by_id"]
    assert newer in answers[1]
    assert api.get(f"/jobs/{newer}").json["replaced_by_id"] is None
    assert job_ids > {job_id}


def test_spread_that_meets_a_fault_of_the_service_names_the_moved_schedules(
    api: Api, visitor: Visitor, database: Database
) -> None:
    register(api)
    for number in range(4):
        created(api, cron(cron="0 2 * * *", timezone=BERLIN, name=f"n{number}"))
    path, do = f"{PATH}/spread?date=2099-01-01&zone={BERLIN}&minute=120", "/console/do/put/spread"
    moves = re.findall(r'name="move" value="([^"]+)"', visitor.get(path))
    assert len(moves) == 3
    form = visitor.form(path, do) | {"move": moves}
    with database.engine.begin() as other:
        other.execute(text("SELECT 1 FROM jobs WHERE job_id = :id FOR UPDATE"), {"id": moves[1].partition(" ")[0]})
        shown = visitor.send(do, form).get_data(as_text=True)
    assert (shown.count("moved to <code>"), shown.count("not moved."), shown.count("Not tried")) == (1, 2, 1), shown
    shown = visitor.send(do, visitor.form(path, do) | {"move": moves}).get_data(as_text=True)
    assert shown.count("moved to <code>") == 3, "the moved schedule is not moved again"


def test_spread_needs_the_scope_of_the_editor(app: Flask, api: Api) -> None:
    register(api)
    for number in range(2):
        created(api, cron(cron="0 2 * * *", timezone=BERLIN, name=f"n{number}"))
    path, do = f"{PATH}/spread?date=2099-01-01&zone={BERLIN}&minute=120", "/console/do/put/spread"
    reader, writer = Visitor(app, Scope.READ), Visitor(app, Scope.READ, Scope.JOBS_WRITE)
    assert (reader.has_form(path, do), writer.has_form(path, do)) == (False, True)


def test_pause_of_a_filter_is_previewed_and_begun(api: Api, visitor: Visitor) -> None:
    register(api)
    created(api, cron(name="report", labels={"team": "a"}))
    created(api, cron(name="other"))
    page = visitor.get(f"{PATH}/bulk?action=pause&labels=team%3Da")
    assert ("report" in page, "other" in page) == (True, False)
    do = "/console/do/post/bulk-operations"
    begun = visitor.act(f"{PATH}/bulk?action=pause&labels=team%3Da", do, rate="50")
    assert "has begun" in begun
    (operation,) = api.get("/bulk-operations").json["items"]
    assert (operation["action"], operation["wanted"], operation["rate"]) == ("pause", {"labels": {"team": "a"}}, 50)
    assert "Nothing matches: there is nothing to resume" in visitor.get(f"{PATH}/bulk?action=resume&labels=team%3Da")
    assert "this concerns all schedules" in visitor.get(f"{PATH}/bulk?action=pause")
    walks = visitor.get("/console/walks")
    assert "This part cannot be shown" not in walks
    assert '">paused' in walks
    assert 'href="/console/jobs?labels=team%3Da"' in walks
