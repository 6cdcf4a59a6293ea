"""Exports of lists: the rows of the filter of the list, bounded, and sent while they are read."""

import csv
import json
import logging
import re

import pytest
from flask import Flask
from sqlalchemy import text

from app.console.http import list_export
from app.console.http.list_export import ROWS, running
from app.console.pages.list_exports import EXPORTS
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.errors import TimedOutError
from tests import rows
from tests.cases import each_case
from tests.console_story import Story
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor
from tests.integration.registered import register

PATH = "/console/executions/export"
MANY = ROWS + 5


@pytest.fixture
def visitor(app: Flask, database: Database) -> Visitor:
    rows.add_endpoint(database, "charge")
    rows.add_endpoint(database, "mail")
    rows.add_endpoint(database, "broken")
    rows.add_executions(database, MANY, endpoint="charge")
    rows.add_executions(database, 2, endpoint="mail")
    return Visitor(app, Scope.READ)


def exported(visitor: Visitor, query: str) -> str:
    answer = visitor.browser.get(f"{PATH}?{query}")
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return answer.get_data(as_text=True)


@pytest.fixture
def filled(api: Api, database: Database) -> Visitor:
    """Rows of each list at several endpoints."""
    Story(database)
    register(api, "mail")
    register(api, "other")
    (execution_id,) = rows.add_executions(database, endpoint="charge-card")
    rows.add_letter(database, execution_id, message="=1+1")
    return Visitor(api.app, Scope.ADMIN)


LISTS = {
    "letters": ("/dead-letters", "/dead-letters", "endpoint=charge-card"),
    "jobs": ("/jobs", "/jobs", "endpoint=charge-card"),
    "uncertain": ("/uncertain", "/attempts", "endpoint=charge-card"),
    "audit": ("/activity/audit", "/audit", "resource=mail"),
}


@pytest.mark.parametrize("name", LISTS)
def test_each_list_is_exported_with_its_filter_as_the_api_answers_it(filled: Visitor, api: Api, name: str) -> None:
    path, of_api, filter_ = LISTS[name]
    field, _, value = filter_.partition("=")
    shown = filled.get(f"/console{path}?{filter_}")
    (address,) = re.findall(r'href="([^"]+/export\?format=ndjson[^"]*)"', shown)
    lines = filled.browser.get(address.replace("&amp;", "&")).get_data(as_text=True).splitlines()
    wanted = {field: value, "limit": "200"} | ({"uncertain": "true"} if name == "uncertain" else {})
    items = api.get(of_api, **wanted).json["items"]
    assert [json.loads(line) for line in lines] == items
    assert items
    answer = filled.browser.get(f"/console{path}/export?{filter_}").get_data(as_text=True)
    table = list(csv.DictReader(answer.splitlines()))
    assert len(table) == len(items)
    assert {*items[0]} - {*table[0]} <= {"input"}
    assert [row[field] for row in table] == [value] * len(items)
    assert "=1+1" not in [each for row in table for each in row.values()], "no formula"


def test_exports_are_those_of_the_lists() -> None:
    assert {each.name for each in EXPORTS} == {*LISTS, "executions"}


@each_case(
    "path",
    ["dead-letters/export?state=x", "jobs/export?status=x", "uncertain/export?since=x", "activity/audit/export?type=x"],
)
def test_filter_that_cannot_be_read_exports_nothing(filled: Visitor, path: str) -> None:
    assert filled.browser.get(f"/console/{path}").status_code == 400


def test_csv_has_each_execution_of_the_filter_once(visitor: Visitor, database: Database) -> None:
    found = list(csv.DictReader(exported(visitor, "endpoint=charge").splitlines()))
    newest_first = "SELECT execution_id FROM executions WHERE endpoint = 'charge' ORDER BY created_at DESC, 1 DESC"
    stored = [row.execution_id for row in database.fetch(text(newest_first))]
    assert len(stored) == MANY
    assert [each["execution_id"] for each in found] == stored
    assert {each["endpoint"] for each in found} == {"charge"}


def test_lines_of_json_are_those_of_the_api(visitor: Visitor, api: Api) -> None:
    found = [json.loads(line) for line in exported(visitor, "format=ndjson&endpoint=mail&since=1h").splitlines()]
    assert found == api.get("/executions", endpoint="mail").json["items"]


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_browser_saves_the_answer_as_a_file(visitor: Visitor, kind: str) -> None:
    answer = visitor.browser.get(f"{PATH}?format={kind}&endpoint=mail")
    assert answer.headers["Content-Disposition"].endswith(f'.{kind}"')
    assert answer.headers["Cache-Control"] == "no-store"


def test_list_leads_to_the_export_of_its_filter(visitor: Visitor) -> None:
    shown = visitor.get("/console/executions?endpoint=mail&status=QUEUED")
    assert f'href="{PATH}?format=csv&amp;status=QUEUED&amp;endpoint=mail"' in shown


def test_export_ends_at_its_bound(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_export, "MOST", ROWS + 1)
    assert len(exported(visitor, "format=ndjson").splitlines()) == ROWS + 1


def test_export_that_takes_too_long_is_cut_and_logged_with_its_filter(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(list_export, "SECONDS", 0.0)
    caplog.set_level(logging.INFO, list_export.__name__)
    with pytest.raises(TimedOutError):
        exported(visitor, "endpoint=mail")
    (line,) = (line for line in caplog.messages if "its file is incomplete" in line)
    assert "endpoint=mail" in line


def test_text_of_a_receiver_is_no_formula(visitor: Visitor, database: Database) -> None:
    (execution_id,) = rows.add_executions(database, 1, endpoint="broken")
    database.fetch(text("UPDATE executions SET attempt_count = 1 WHERE endpoint = 'broken'"))
    rows.add_attempt(database, execution_id, 1, "FAILED", error={"type": "HTTP_ERROR", "message": "=1+1"})
    (found,) = csv.DictReader(exported(visitor, "endpoint=broken").splitlines())
    assert (found["error_type"], found["error_message"]) == ("HTTP_ERROR", "'=1+1")


def test_third_export_at_a_time_waits_for_its_turn(visitor: Visitor) -> None:
    begun = [visitor.browser.get(PATH, buffered=False) for _ in range(2)]
    assert visitor.browser.get(PATH).status_code == 503
    for answer in begun:
        answer.close()
    assert visitor.browser.get(PATH).status_code == 200
    assert running.acquire(blocking=False)
    running.release()


def test_export_needs_the_scope_of_the_list_and_a_filter_that_can_be_read(app: Flask, visitor: Visitor) -> None:
    assert Visitor(app, Scope.JOBS_SEND).browser.get(PATH).status_code == 403
    assert visitor.browser.get(f"{PATH}?status=NONE").status_code == 400
    assert visitor.browser.get(f"{PATH}?since=soon").status_code == 400
    assert visitor.browser.get(f"{PATH}?format=xml").status_code == 400
