"""Pages of jobs: list, one job, and the form of a new job."""

import re

import pytest
from flask import Flask

from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor
from tests.integration.registered import created, cron, interval, one_shot, register
from tests.integration.statements import Statements

NEW = "/console/do/post/jobs"
ORDER = {
    "type": "object",
    "required": ["user_id", "amount"],
    "properties": {
        "user_id": {"type": "string", "description": "Whom it concerns."},
        "amount": {"type": "integer", "minimum": 1},
        "address": {"type": "object", "properties": {"city": {"type": "string"}}},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
    },
}


@pytest.fixture
def visitor(app: Flask, database: Database) -> Visitor:
    return Visitor(app, Scope.READ, Scope.JOBS_WRITE)


@pytest.fixture
def orders(api: Api) -> str:
    assert api.post("/payload-specs", {"name": "order", "schema": ORDER}).status_code == 201
    return register(api, "orders", payload_spec="order")


def test_list_shows_the_jobs_of_a_filter(api: Api, visitor: Visitor) -> None:
    assert "There is no job yet" in visitor.get("/console/jobs")
    register(api)
    created(api, cron(name="report <b>", labels={"team": "a"}))
    created(api, one_shot("order-1"))
    page = visitor.get("/console/jobs")
    assert all(part in page for part in ("report &lt;b&gt;", "order-1", "0 9 * * MON", "team=a"))
    assert "order-1" not in visitor.get("/console/jobs?trigger=CRON")
    assert "No job matches this filter" in visitor.get("/console/jobs?endpoint=nobody")
    assert "Must be key=value pairs" in visitor.get("/console/jobs?labels=team")


def test_pages_of_the_list_follow_each_other(api: Api, visitor: Visitor) -> None:
    register(api)
    for number in range(51):
        created(api, one_shot(f"order-{number:02}"))
    first = visitor.get("/console/jobs")
    assert ("order-50" in first, "order-00" in first) == (True, False)
    older = first.partition('class="pages"')[2].partition('href="')[2].partition('"')[0].replace("&amp;", "&")
    second = visitor.get(older)
    assert ("order-50" in second, "order-00" in second) == (False, True)
    assert "Open this page from the page before" in visitor.get("/console/jobs?after=x")


def test_job_shows_its_state_executions_and_versions(api: Api, visitor: Visitor) -> None:
    register(api)
    first = created(api, cron(name="report", timezone="Europe/Berlin"))["job_id"]
    second = api.put(f"/jobs/{first}", {"cron": "0 10 * * MON", "input": {"user_id": "u_2"}}).json["job_id"]
    page = visitor.get(f"/console/jobs/{second}")
    for part in ("At 10:00 on Monday", "Version 2", "0 9 * * MON", "input.user_id", "It has not run yet", "no end"):
        assert part in page, part
    old = visitor.get(f"/console/jobs/{first}")
    assert "This is an earlier version" in old
    assert not visitor.has_form(f"/console/jobs/{first}", f"/console/do/post/jobs/{first}/run")
    assert "There is no job" in visitor.get("/console/jobs/job_missing", 404)


def test_job_is_run_paused_resumed_and_cancelled(api: Api, visitor: Visitor) -> None:
    register(api)
    job_id = created(api, cron())["job_id"]
    path, do = f"/console/jobs/{job_id}", f"/console/do/post/jobs/{job_id}"
    assert "The job runs now" in visitor.act(path, f"{do}/run")
    assert len(api.get(f"/jobs/{job_id}/executions").json["items"]) == 1
    for verb, status in (("pause", "PAUSED"), ("resume", "ACTIVE"), ("cancel", "RETIRED")):
        visitor.act(path, f"{do}/{verb}")
        assert api.get(f"/jobs/{job_id}").json["status"] == status


def test_reader_gets_no_forms(app: Flask, api: Api) -> None:
    register(api)
    job_id = created(api, cron())["job_id"]
    reader = Visitor(app, Scope.READ)
    assert not reader.has_form(f"/console/jobs/{job_id}", f"/console/do/post/jobs/{job_id}/run")
    reader.get("/console/jobs/new", 403)


def test_form_of_the_schema_creates_one_job(api: Api, visitor: Visitor, orders: str) -> None:
    path = "/console/jobs/new?endpoint=orders"
    page = visitor.get(path)
    for part in ('name="input/user_id"', 'name="input/amount"', "Whom it concerns", "from 1", "Add another"):
        assert part in page, part
    form = visitor.form(path, NEW) | {"do": "create", "input/user_id": "u_1", "input/amount": "3", "labels": "team=a"}
    form |= {"input/address/city": "Köln", "input/lines/0/sku": "x"}
    answers = [visitor.send(NEW, form) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [303, 303]
    (job,) = api.get("/jobs").json["items"]
    assert {answer.headers["Location"] for answer in answers} == {f"/console/jobs/{job['job_id']}"}
    assert job["input"] == {"user_id": "u_1", "amount": 3, "address": {"city": "Köln"}, "lines": [{"sku": "x"}]}
    assert (job["labels"], job["trigger"]) == ({"team": "a"}, "IMMEDIATE")
    assert job["idempotency_key"].startswith("console-")


def test_copied_requests_of_two_pages_have_different_keys(visitor: Visitor, orders: str) -> None:
    pages = [visitor.get("/console/jobs/new?endpoint=orders") for _ in range(2)]
    keys = [re.findall(r"idempotency_key&#34;:&#34;console-([\w-]+)&#34;", page) for page in pages]
    assert [len(found) for found in keys] == [1, 1]
    assert keys[0] != keys[1]


def test_faults_are_shown_at_their_fields_with_what_was_typed(api: Api, visitor: Visitor, orders: str) -> None:
    form = visitor.form("/console/jobs/new?endpoint=orders", NEW)
    typed = {"do": "create", "input/user_id": "u_1", "input/amount": "0", "priority": "900", "labels": "team"}
    answer = visitor.send(NEW, form | typed)
    page = answer.get_data(as_text=True)
    assert answer.status_code == 422
    for name in ("input/amount", "priority", "labels"):
        assert f'id="n-{name}"' in page.partition(f'id="f-{name}"')[2][:400], name
        assert 'aria-invalid="true"' in page.partition(f'id="f-{name}"')[2][:300], name
    assert 'value="u_1"' in page
    assert api.get("/jobs").json["items"] == []
    checked = visitor.send(NEW, form | {"do": "check", "input/user_id": "u_1", "input/amount": "2"})
    assert "would be accepted" in checked.get_data(as_text=True)
    assert "&#34;amount&#34;:2" in checked.get_data(as_text=True), "the same by curl"
    assert api.get("/jobs").json["items"] == []


def test_form_is_checked_while_it_is_typed(api: Api, visitor: Visitor, orders: str, statements: Statements) -> None:
    """Each pause in typing sends the form: the check only reads."""
    assert 'id="checked"' in visitor.get("/console/jobs/new?endpoint=orders")
    form = visitor.form("/console/jobs/new?endpoint=orders", NEW) | {"input/user_id": "u_1"}
    for typed, words in (({"priority": "900"}, "<b>priority</b>"), ({"input/amount": "2"}, "&#34;amount&#34;:2")):
        statements.clear()
        answer = visitor.send("/console/jobs/new", form | typed)
        assert answer.status_code == 200, "htmx swaps no other"
        assert not [each for each in statements.texts if not each.startswith("SELECT")], statements.texts
        assert words in answer.get_data(as_text=True).partition('id="checked"')[2]
    assert api.get("/jobs").json["items"] == []


def test_list_of_the_form_grows(visitor: Visitor, orders: str) -> None:
    form = visitor.form("/console/jobs/new?endpoint=orders", NEW)
    answer, again = (visitor.send(NEW, form | {"do": "add:input/lines", "input/lines/0/sku": "x"}) for _ in range(2))
    assert again.status_code == 200, "a reload of the answer"
    page = answer.get_data(as_text=True)
    assert answer.status_code == 200
    assert 'name="input/lines/1/sku"' in page
    assert 'value="x"' in page


def test_schedule_is_created_and_previewed(api: Api, visitor: Visitor) -> None:
    register(api)
    path = "/console/jobs/new?endpoint=target&when=cron"
    form = visitor.form(path, NEW) | {"do": "create", "cron": "30 2 * * *", "timezone": "Europe/Berlin"}
    form |= {"input": '{"user_id": "u_1"}', "catch_up": "latest", "overlap": "skip", "name": "report"}
    assert visitor.send(NEW, form | {"cron": "61 * * * *"}).status_code == 422
    assert visitor.send(NEW, form).status_code == 303
    (job,) = api.get("/jobs").json["items"]
    assert (job["cron"], job["catch_up"], job["overlap"], job["name"]) == ("30 2 * * *", "latest", "skip", "report")
    runs = visitor.get("/console/jobs/new?region=runs&cron=30+2+*+*+*&timezone=Europe/Berlin")
    assert "At 02:30" in runs
    assert "is not valid as minute" in visitor.get("/console/jobs/new?region=runs&cron=61+*+*+*+*")


def test_new_job_like_another_has_its_values(api: Api, visitor: Visitor, orders: str) -> None:
    wanted = {"user_id": "u_7", "amount": 5}
    job_id = created(api, one_shot("x", endpoint="orders", input=wanted, labels={"team": "a"}))["job_id"]
    page = visitor.get(f"/console/jobs/new?like={job_id}")
    assert all(part in page for part in ('value="u_7"', 'value="5"', 'value="team=a"'))


def test_new_job_like_another_keeps_its_callbacks(api: Api, visitor: Visitor, orders: str) -> None:
    register(api, "alert")
    callbacks = {"on_failure": "alert", "on_success": None}
    wanted = {"user_id": "u_7", "amount": 5}
    job_id = created(api, one_shot("x", endpoint="orders", input=wanted, callbacks=callbacks))["job_id"]
    path, shown = f"/console/jobs/new?like={job_id}", "on_failure=alert, on_success="
    assert f'value="{shown}"' in visitor.get(path)
    form = visitor.form(path, NEW) | {"do": "create", "input/user_id": "u_7", "input/amount": "5"}
    assert visitor.send(NEW, form | {"callbacks": shown}).status_code == 303
    assert [job["callbacks"] for job in api.get("/jobs").json["items"]] == [callbacks] * 2
    answer = visitor.send(NEW, form | visitor.form(path, NEW) | {"callbacks": "ended=alert"})
    assert answer.status_code == 422
    assert "Unknown field" in answer.get_data(as_text=True)


def test_unknown_endpoint_is_a_fault(visitor: Visitor) -> None:
    assert "no endpoint named" in visitor.get("/console/jobs/new?endpoint=nobody")


@pytest.mark.parametrize("is_delayed", [False, True])
def test_new_job_like_an_interval_keeps_how_its_runs_follow(api: Api, visitor: Visitor, is_delayed: bool) -> None:
    register(api)
    job_id = created(api, interval(fixed_delay=is_delayed))["job_id"]
    box = re.search('<input [^>]*name="fixed_delay"[^>]*>', visitor.get(f"/console/jobs/new?like={job_id}"))
    assert box is not None
    assert (" checked" in box[0]) is is_delayed


def test_name_given_twice_is_refused(api: Api, visitor: Visitor, orders: str) -> None:
    form = visitor.form(f"/console/jobs/new?endpoint={orders}", NEW)
    answer = visitor.send(NEW, form | {"callbacks": "on_failure=alert, on_failure=pager"})
    assert answer.status_code == 422
    assert "Has a key twice" in answer.get_data(as_text=True)
