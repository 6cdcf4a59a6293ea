"""Ticked rows of a list: the same preview and the same form as a filter has."""

import re
from urllib.parse import urlencode

import pytest
from flask import Flask

from app.features.bulk_jobs.store import BULK_OPERATIONS
from app.features.dead_letters.redrives import REDRIVES
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from tests.console_story import Story
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor

EXECUTIONS, LETTERS, WALKS = "/console/executions", "/console/dead-letters", "/console/walks"
BULK = "/console/do/post/bulk-operations"


def ticked(path: str, name: str, ids: list[str], **fields: str) -> str:
    """Return the address that a browser opens for ticked boxes."""
    return f"{path}?{urlencode([('chosen', 'on'), *((name, each) for each in ids), *fields.items()])}"


def boxes(page: str, name: str) -> list[str]:
    return re.findall(rf'<input type="checkbox" form="chosen" autocomplete="off" name="{name}" value="(\w+)"', page)


def test_ticked_executions_are_previewed_and_cancelled(operator: Visitor, database: Database, story: Story) -> None:
    page = operator.get(EXECUTIONS)
    assert {*story.waiting, story.failed} <= {*boxes(page, "execution_id")}
    wanted = [story.waiting[0], story.waiting[2], story.good]
    path = ticked(f"{EXECUTIONS}/bulk", "execution_id", wanted, action="cancel")
    shown = operator.get(path)
    assert [part for part in ("3 chosen", "Cancel 2", *story.waiting[:3:2]) if part not in shown] == []
    assert f'id="{story.good}"' not in shown, "it has ended"
    assert "has begun" in operator.act(path, BULK)
    (begun,) = BULK_OPERATIONS.page(database, PageRequest()).items
    assert begun.wanted == {"execution_id": ",".join(wanted)}
    walks = operator.get(WALKS)
    assert "3 chosen" in walks
    (listed,) = re.findall(rf'href="({EXECUTIONS}\?execution_id=[^"]+)"', walks)
    assert {*re.findall(r'<tr id="(\w+)"', operator.get(listed))} == {*wanted}


def test_ticked_executions_that_failed_are_retried(operator: Visitor, story: Story) -> None:
    shown = operator.get(ticked(f"{EXECUTIONS}/bulk", "execution_id", [story.failed, story.good], action="retry"))
    assert "Retry 1" in shown
    assert "Nothing matches" in operator.get(ticked(f"{EXECUTIONS}/bulk", "execution_id", [story.good], action="retry"))


def test_ticked_letters_are_redriven_or_archived(operator: Visitor, database: Database, story: Story) -> None:
    page = operator.get(LETTERS)
    assert {*boxes(page, "letter_id")} == {*story.letters}
    wanted = [story.letters[0], story.letters[8]]
    redrive, archive = (ticked(f"{LETTERS}/{verb}", "letter_id", wanted) for verb in ("redrive", "archive"))
    assert [part for part in ("2 chosen", "Redrive 2", *wanted) if part not in operator.get(redrive)] == []
    assert "has begun" in operator.act(redrive, "/console/do/post/redrives")
    assert REDRIVES.page(database, PageRequest()).items[0].wanted == {"letter_id": ",".join(wanted)}
    assert "Archive 2" in operator.get(archive)
    form = operator.form(archive, BULK)
    assert operator.send(BULK, form).status_code == 400, "without a reason"
    assert "has begun" in operator.act(archive, BULK, note="known")
    (begun,) = BULK_OPERATIONS.page(database, PageRequest()).items
    assert (begun.action, begun.given.note, begun.wanted) == ("archive", "known", {"letter_id": ",".join(wanted)})


@pytest.mark.parametrize("path", [f"{EXECUTIONS}/bulk?action=cancel", f"{LETTERS}/redrive?", f"{LETTERS}/archive?"])
def test_no_ticked_row_never_means_all_rows(operator: Visitor, story: Story, path: str) -> None:
    page = operator.get(f"{path}&chosen=on")
    assert "Tick at least one row" in page
    assert "nothing chosen" in page
    assert "to confirm" not in page
    action = "/console/do/post/redrives" if "redrive" in path else BULK
    assert not operator.has_form(f"{path}&chosen=on", action)


def test_too_many_or_malformed_ids_are_named(operator: Visitor, story: Story) -> None:
    many = [f"exec_{number}" for number in range(101)]
    assert "up to 100 ids" in operator.get(ticked(f"{EXECUTIONS}/bulk", "execution_id", many, action="retry"))


def test_reader_and_resolved_letters_have_no_boxes(app: Flask, operator: Visitor, story: Story) -> None:
    reader = Visitor(app, Scope.READ)
    for path in (EXECUTIONS, LETTERS):
        assert 'type="checkbox" form=' not in reader.get(path)
    assert 'type="checkbox" form=' not in operator.get(f"{LETTERS}?state=resolved")


def test_api_lists_and_previews_chosen_rows(api: Api, story: Story) -> None:
    chosen = f"{story.failed},{story.waiting[0]}"
    assert {each["execution_id"] for each in api.get("/executions", execution_id=chosen).json["items"]} == {
        story.failed,
        story.waiting[0],
    }
    letters = ",".join(story.letters[:2])
    assert len(api.get("/dead-letters", letter_id=letters).json["items"]) == 2
    refused = api.post("/bulk-operations/preview", {"action": "retry", "wanted": {"letter_id": letters}})
    assert (refused.status_code, refused.json["error"]["details"][0]["pointer"]) == (400, "/wanted/letter_id")
    assert api.get("/executions", execution_id=",").status_code == 400
