"""The pages of bulk operations, and the forms that begin an operation."""

import re

import pytest
from flask import Flask

from app.console.pages import letters_page, walks_page
from app.features.bulk_jobs.store import BULK_OPERATIONS
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from app.queue.bulk import bulk_job_kind
from schema.states import BulkJobStatus
from tests import rows
from tests.console_story import Story
from tests.integration.console.visitor import Visitor

EXECUTIONS, LETTERS, WALKS = "/console/executions", "/console/dead-letters", "/console/walks"


def shown(visitor: Visitor, path: str) -> str:
    page = visitor.get(path)
    assert "This part cannot be shown" not in page, page
    return page


def test_bulk_operation_has_the_filter_of_the_list_and_its_preview(
    operator: Visitor, database: Database, story: Story
) -> None:
    path = f"{EXECUTIONS}/bulk?action=retry&endpoint=charge-card&status=FAILED&since=2h"
    page = shown(operator, path)
    assert "Retry 8" in page
    after = operator.act(path, "/console/do/post/bulk-operations", rate="7")
    assert "has begun" in after
    (begun,) = BULK_OPERATIONS.page(database, PageRequest()).items
    assert (begun.rate, begun.wanted["status"], begun.wanted["endpoint"]) == (7, "FAILED", "charge-card")
    assert "created_after" in begun.wanted
    action = f"/console/do/post/bulk-operations/{begun.operation_id}"
    for verb, status in (
        ("pause", BulkJobStatus.PAUSED),
        ("resume", BulkJobStatus.RUNNING),
        ("stop", BulkJobStatus.STOPPED),
    ):
        operator.act(WALKS, f"{action}/{verb}")
        assert BULK_OPERATIONS.get(database, begun.operation_id).status is status


def test_number_of_many_rows_is_typed(operator: Visitor, database: Database, story: Story) -> None:
    rows.add_executions(database, 100, endpoint="charge-card")
    path = f"{EXECUTIONS}/bulk?action=cancel&endpoint=charge-card"
    assert "to confirm" in shown(operator, path)
    action = "/console/do/post/bulk-operations"
    form = operator.form(path, action)
    assert operator.send(action, form | {"typed": "7"}).status_code == 400
    assert BULK_OPERATIONS.page(database, PageRequest()).items == []
    assert "has begun" in operator.act(path, action, typed=form["shown"])


def test_number_is_typed_when_not_all_rows_were_counted(
    operator: Visitor, database: Database, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound in ("most", "at_once"):
        monkeypatch.setitem(bulk_job_kind.preview.__kwdefaults__, bound, 1)
    action = "/console/do/post/bulk-operations"
    path = f"{EXECUTIONS}/bulk?action=retry&labels=team%3Dnobody"
    assert "Type 0 to confirm" in shown(operator, path)
    form = operator.form(path, action)
    assert operator.send(action, form).status_code == 400
    assert "has begun" in operator.act(path, action, typed="0")


def test_number_of_many_archived_letters_is_typed(operator: Visitor, database: Database) -> None:
    rows.add_endpoint(database)
    rows.add_letters(database, 100)
    assert "Type 100 to confirm" in shown(operator, LETTERS)
    action = "/console/do/post/bulk-operations"
    form = operator.form(LETTERS, action) | {"note": "known"}
    assert operator.send(action, form).status_code == 400
    assert operator.send(action, form | {"typed": "100"}).status_code == 303


def test_filter_without_matches_has_nothing_to_start(operator: Visitor, story: Story) -> None:
    path = f"{EXECUTIONS}/bulk?action=retry&endpoint=nobody"
    assert "Nothing matches" in shown(operator, path)
    assert not operator.has_form(path, "/console/do/post/bulk-operations")
    assert "<b>since</b>" in shown(operator, f"{EXECUTIONS}/bulk?action=retry&since=soon")


def test_group_is_archived_with_a_reason(operator: Visitor, database: Database, story: Story) -> None:
    form = operator.form(f"{LETTERS}?endpoint=send-mail", "/console/do/post/bulk-operations")
    action = "/console/do/post/bulk-operations"
    assert operator.send(action, form).status_code == 400, "without a reason"
    assert operator.send(action, form | {"note": "known"}).status_code == 303
    (begun,) = BULK_OPERATIONS.page(database, PageRequest()).items
    assert (begun.action, begun.parameters["note"], begun.wanted["endpoint"]) == ("archive", "known", "send-mail")


def test_letters_that_were_not_grouped_in_time_have_groups_behind_a_link(
    operator: Visitor, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_groups = set(re.findall(r'id="group-(\w+)"', shown(operator, LETTERS)))
    monkeypatch.setattr(letters_page, "NEWEST", 4)
    action, page = "/console/do/post/bulk-operations", shown(operator, f"{LETTERS}?since=2d")
    assert "Counted among the newest 4 open letters; older letters were not looked at." in page
    assert "+…" in page
    assert not operator.has_form(LETTERS, action), "the number that is typed would be too small"
    archive = page.partition('">Archive…')[0].rpartition('href="')[2].replace("&amp;", "&")
    assert operator.has_form(archive, action)
    assert "None of the newest 4 open letters matches" in shown(operator, f"{LETTERS}?labels=team%3Dnobody")
    seen = set(re.findall(r'id="group-(\w+)"', page))
    while '">Group the older ones' in page:
        older = page.partition('">Group the older ones')[0].rpartition('href="')[2].replace("&amp;", "&")
        page = shown(operator, older)
        assert "+…" in page, "newer letters of the group were not counted"
        seen |= set(re.findall(r'id="group-(\w+)"', page))
    assert "older letter" in page
    assert seen == all_groups
    assert len(seen) > 1


def test_reader_gets_no_form(app: Flask, operator: Visitor, story: Story) -> None:
    reader = Visitor(app, Scope.READ)
    path, action = f"{EXECUTIONS}/bulk?action=retry&endpoint=charge-card", "/console/do/post/bulk-operations"
    assert not reader.has_form(path, action)
    form = operator.form(path, action) | {"csrf": reader.form(path, "/console/sign-out")["csrf"]}
    assert reader.send(action, form).status_code == 403


def test_page_of_redrives_does_without_bulk_operations(operator: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    page = operator.get(WALKS)
    assert page.index("<h2>Bulk operations</h2>") < page.index("<h2>Redrives</h2>")
    monkeypatch.delitem(walks_page.page.regions, "operations")
    page = operator.get(WALKS)
    assert "<h2>Redrives</h2>" in page
    assert "<h2>Bulk operations</h2>" not in page
