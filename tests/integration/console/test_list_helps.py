"""Helps of lists and pages: pinned times, columns, ids to copy, missing scopes, deleted executions, repeated work."""

import re
import time
from datetime import datetime, timedelta
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest
from flask import Flask
from sqlalchemy import text

from app.console.pages.executions_page import PRESETS
from app.features.dead_letters.letter_list import get_letter
from app.kernel import ids
from app.kernel.access.api_keys import Scope
from app.kernel.config import Settings
from app.kernel.db import Database
from tests.console_story import Story
from tests.integration.client import Api, running
from tests.integration.console.visitor import Visitor
from tests.integration.registered import created
from tests.integration.statements import Statements

EXECUTIONS, LETTERS, WALKS = "/console/executions", "/console/dead-letters", "/console/walks"


@pytest.fixture
def admin(app: Flask) -> Visitor:
    return Visitor(app, Scope.ADMIN)


@pytest.mark.parametrize(
    ("path", "begin", "end"),
    [(EXECUTIONS, "created_after", "created_before"), (LETTERS, "failed_after", "failed_before")],
)
def test_pin_makes_a_relative_time_fixed(admin: Visitor, story: Story, path: str, begin: str, end: str) -> None:
    page = admin.get(f"{path}?since=2h&endpoint=charge-card")
    (pinned,) = (unescape(each) for each in re.findall(r'<a href="([^"]+)"[^>]*>pin</a>', page))
    query = {name: values[0] for name, values in parse_qs(urlsplit(pinned).query).items()}
    assert query.keys() == {"endpoint", begin, end}
    length = datetime.fromisoformat(query[end]) - datetime.fromisoformat(query[begin])
    assert length == timedelta(hours=2)
    again = admin.get(pinned)
    assert story.letter in again or story.failed in again
    assert ">pin</a>" not in again


def test_list_without_a_match_names_the_filter_that_excludes_most(admin: Visitor, story: Story) -> None:
    wanted = "endpoint=send-mail&status=CANCELLED&since=2h"
    (address, words, count) = re.findall(
        r'Without <a href="([^"]+)">([^<]+)</a> there are (\d+)\.', admin.get(f"{EXECUTIONS}?{wanted}")
    )[0]
    assert words == "status CANCELLED"
    listed = admin.get(unescape(address))
    assert int(count) == len(re.findall(r'<tr id="exec_', listed)) > 0
    assert "Without <a" not in admin.get(f"{EXECUTIONS}?status=CANCELLED&error_type=NONE&endpoint=nobody")


def test_refresh_of_an_empty_list_repeats_no_scan_for_the_filter_that_excludes_most(
    admin: Visitor, story: Story, statements: Statements
) -> None:
    wanted = f"{EXECUTIONS}?endpoint=send-mail&status=CANCELLED&since=2h"
    page = admin.get(wanted)
    assert "Without <a" in page
    read = dict[str, int]()
    for address in map(unescape, re.findall(r'data-region [^>]*hx-get="([^"]+)"', page)):
        statements.clear()
        admin.get(address)
        read[parse_qs(urlsplit(address).query)["region"][0]] = sum(
            "FROM executions" in each for each in statements.texts
        )
    assert read == {"periods": 0, "list": 2}, "a page of the list, and its newer executions"


def test_period_that_a_relative_time_hides_goes_with_it(admin: Visitor, database: Database, story: Story) -> None:
    """From the list that is empty because of its time, and from the filter above it."""
    database.fetch(text("UPDATE executions SET created_at = now() - INTERVAL '3 hours'"))
    begin, end = "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z"
    wanted = f"status=FAILED&since=2h&created_after={begin}&created_before={end}&scheduled_after={begin}"
    page = admin.get(f"{EXECUTIONS}?{wanted}")
    addresses = [unescape(each) for each in re.findall(r'<a (?:class="tag" )?href="([^"]+)"[^>]*>since 2h', page)]
    assert len(addresses) == 2
    for address in addresses:
        assert parse_qs(urlsplit(address).query).keys() == {"status", "scheduled_after"}
        assert re.search(r'<tr id="exec_', admin.get(address))


def test_all_columns_have_the_columns_of_each_preset(admin: Visitor, story: Story) -> None:
    head = re.compile(r'<th scope="col"[^>]*>([A-Z][\w ,]+)</th>')
    heads = {preset: set(head.findall(admin.get(f"{EXECUTIONS}?columns={preset}"))) for preset in PRESETS}
    assert len(heads["all"]) == 14
    assert heads["fault"] | heads["traffic"] | heads["punctuality"] - {"Why"} == heads["all"]


def test_id_of_an_execution_has_a_button_that_copies_it(admin: Visitor, story: Story) -> None:
    page = admin.get(f"{EXECUTIONS}/{story.failed}")
    assert re.search(rf'<button type="button" class="plain copy" data-copy="{story.failed}" hidden>', page)


def test_footer_names_missing_scopes_and_the_actions_that_they_allow(app: Flask, admin: Visitor) -> None:
    footer = Visitor(app, Scope.READ).get("/console").partition("<footer>")[2]
    assert "<b>jobs:write</b> (create, retry and cancel, redrive and archive)" in footer
    assert "<b>admin</b> (change endpoints" in footer
    assert "lacks" not in admin.get("/console").partition("<footer>")[2]


def test_execution_with_an_open_letter_is_redriven_as_a_new_job(admin: Visitor, story: Story) -> None:
    execution_id = get_letter(story.database, story.letter).execution_id
    action = f"/console/do/post/dead-letters/{story.letter}/redrive"
    after = admin.act(f"{EXECUTIONS}/{execution_id}", action, endpoint="charge-card")
    assert "It is redriven" in after
    assert not admin.has_form(f"{EXECUTIONS}/{execution_id}", action)


def test_page_of_a_deleted_execution_says_its_age_and_the_retention(admin: Visitor) -> None:
    old = time.time_ns() - 31 * 86_400 * 10**9
    page = admin.get(f"{EXECUTIONS}/exec_{old:016x}0123456789abcdef", 404)
    assert "There is no execution with this ID." in page
    assert re.search(r"The ID is of \d{4}-\d\d-\d\d .* UTC: .* once TE_RETENTION_DAYS, here 30, have passed", page)
    for name in (ids.execution_id(), "exec_unknown"):
        page = admin.get(f"{EXECUTIONS}/{name}", 404)
        assert f"There is no execution with the ID &#39;{name}&#39;" in page
        assert "TE_RETENTION_DAYS" not in page


def test_ended_bulk_operation_leads_to_the_preview_of_the_same_filter(admin: Visitor, story: Story) -> None:
    path = f"{EXECUTIONS}/bulk?action=cancel&endpoint=send-mail&if_running=request"
    after = admin.act(path, "/console/do/post/bulk-operations", rate="100", typed="5")
    assert "The same again" not in after
    (operation_id,) = re.findall(r'<tr id="(bop_\w+)"', after)
    page = admin.act(WALKS, f"/console/do/post/bulk-operations/{operation_id}/stop")
    (again,) = (unescape(each) for each in re.findall(r'<a href="([^"]+)">The same again…</a>', page))
    assert parse_qs(urlsplit(again).query) == {
        "action": ["cancel"],
        "endpoint": ["send-mail"],
        "if_running": ["request"],
        "rate": ["100"],
    }
    assert "match" in admin.get(again)


def test_url_of_an_inline_job_is_closed_with_the_inputs(database_url: str, api: Api) -> None:
    url = "http://127.0.0.1:9/customer-4711"
    job = created(api, {"url": url, "trigger": "IMMEDIATE", "idempotency_key": "i-1"})
    path = f"/console/endpoints/{job['endpoint']}"
    with running(Settings(database_url=database_url, console_inputs="closed")) as closed:
        admin = Visitor(closed, Scope.ADMIN)
        assert url not in admin.get(path)
        assert url not in admin.get(f"{path}?region=versions")
        assert url in admin.get(f"{path}?inputs=shown")
