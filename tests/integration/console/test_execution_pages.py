"""The pages of executions, dead letters and uncertain deliveries."""

import pytest
from flask import Flask
from sqlalchemy import text

from app.console.pages import executions_page
from app.features.dead_letters.redrives import REDRIVES
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from schema.states import BulkJobStatus, ExecutionStatus
from tests import rows
from tests.console_story import Story
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor

EXECUTIONS, LETTERS, WALKS = "/console/executions", "/console/dead-letters", "/console/walks"


@pytest.fixture
def reader(app: Flask) -> Visitor:
    return Visitor(app, Scope.READ)


def shown(visitor: Visitor, path: str) -> str:
    page = visitor.get(path)
    assert "This part cannot be shown" not in page, page
    return page


@pytest.mark.parametrize("columns", ["fault", "punctuality", "traffic"])
def test_executions_are_listed_with_the_reason_of_each_wait(
    reader: Visitor, story: Story, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executions_page, "SECONDS_OF_REASONS", 60)  # a slow page leaves reasons out
    page = shown(reader, f"{EXECUTIONS}?columns={columns}")
    assert all(each[-6:] in page for each in (story.good, story.failed, story.running, story.waiting[0]))
    if columns != "traffic":
        assert "behind 4" in page
        assert "due, in 1 h" in page


def test_filter_of_the_address_narrows_the_list(reader: Visitor, story: Story) -> None:
    page = shown(reader, f"{EXECUTIONS}?error_type=TIMEOUT&labels=team%3Dbilling&since=2h&status=FAILED")
    assert story.failed[-6:] in page
    assert story.good[-6:] not in page
    assert "No execution matches this filter" in shown(reader, f"{EXECUTIONS}?endpoint=nobody")
    assert story.running[-6:] in shown(reader, f"{EXECUTIONS}?status=RUNNING,RETRYING")


@pytest.mark.parametrize("query", ["status=WRONG", "since=soon", "labels=x", "late_over=long"])
def test_malformed_filter_is_named_and_lists_nothing(reader: Visitor, story: Story, query: str) -> None:
    page = shown(reader, f"{EXECUTIONS}?{query}")
    assert f"<b>{query.partition('=')[0]}</b>" in page
    assert story.good[-6:] not in page


def test_all_faults_of_a_filter_are_named(reader: Visitor) -> None:
    page = shown(reader, f"{EXECUTIONS}?status=WRONG&since=soon")
    assert "<b>status</b>" in page
    assert "<b>since</b>" in page


def test_list_is_pinned_and_newer_executions_are_counted(reader: Visitor, database: Database, story: Story) -> None:
    until = rows.database_now(database).isoformat().replace("+", "%2B")
    new = rows.add_executions(database, 3, endpoint="send-mail")
    page = shown(reader, f"{EXECUTIONS}?region=list&until={until}")
    assert "3 newer" in page
    assert new[0][-6:] not in page
    assert new[0][-6:] in shown(reader, EXECUTIONS)


def test_older_executions_follow_by_a_cursor(reader: Visitor, database: Database, story: Story) -> None:
    rows.add_executions(database, 60, endpoint="send-mail")
    page = shown(reader, EXECUTIONS)
    older = page.partition('">Older</a>')[0].rpartition('href="')[2].replace("&amp;", "&")
    assert story.good[-6:] not in page
    assert story.good[-6:] in shown(reader, older)
    assert reader.get(f"{EXECUTIONS}?after=x")


def test_execution_shows_its_picture_attempts_request_and_reason(reader: Visitor, story: Story) -> None:
    page = shown(reader, f"{EXECUTIONS}/{story.failed}")
    for part in ("Attempt 3 of 3 failed", "piece uncertain", "may have been delivered", "12345678901234567890"):
        assert part in page, part
    assert "https://charge-card.example/o-81" in page
    assert "next of its endpoint" in shown(reader, EXECUTIONS)
    waiting = shown(reader, f"{EXECUTIONS}/{story.waiting[2]}")
    assert "No attempt has ended" in waiting
    for each in (story.running, story.retrying, story.later[0], story.good):
        assert "<svg" in shown(reader, f"{EXECUTIONS}/{each}")
    reader.get(f"{EXECUTIONS}/exec_unknown", 404)


@pytest.mark.parametrize(
    ("pause", "reason"),
    [
        ("/endpoints/send-mail", "its endpoint is paused"),
        ("/queues/http", "its queue is paused"),
    ],
)
def test_wait_is_ended_by_the_button_of_its_reason(app: Flask, api: Api, story: Story, pause: str, reason: str) -> None:
    admin, path = Visitor(app, Scope.ADMIN), f"{EXECUTIONS}/{story.waiting[0]}"
    assert api.post(f"{pause}/pause").status_code < 300
    assert reason in shown(admin, EXECUTIONS)
    admin.act(path, f"/console/do/post{pause}/resume")
    assert reason not in shown(admin, EXECUTIONS)


def test_execution_is_retried_once(operator: Visitor, database: Database, story: Story) -> None:
    path = f"{EXECUTIONS}/{story.failed}"
    assert "It is queued again" in operator.act(path, f"/console/do/post/executions/{story.failed}/retry")
    assert rows.execution(database, story.failed).status == ExecutionStatus.QUEUED


def test_waiting_execution_is_cancelled_and_a_running_execution_is_asked_to_end(
    operator: Visitor, database: Database, story: Story
) -> None:
    for execution_id, fields, words in (
        (story.waiting[0], {}, "It is cancelled"),
        (story.running, {"if_running": "request"}, "It was asked to end"),
    ):
        action = f"/console/do/post/executions/{execution_id}/cancel"
        assert words in operator.act(f"{EXECUTIONS}/{execution_id}", action, **fields)
    assert rows.execution(database, story.waiting[0]).status == ExecutionStatus.CANCELLED
    assert rows.execution(database, story.running).cancel_requested_at is not None


def test_reader_gets_no_button(reader: Visitor, operator: Visitor, story: Story) -> None:
    actions = [
        (f"{EXECUTIONS}/{story.failed}", f"/console/do/post/executions/{story.failed}/retry"),
        (f"{LETTERS}/{story.letter}", f"/console/do/post/dead-letters/{story.letter}/redrive"),
        (f"{LETTERS}/redrive?endpoint=charge-card", "/console/do/post/redrives"),
    ]
    for path, action in actions:
        assert not reader.has_form(path, action), path
        form = operator.form(path, action) | {"csrf": reader.form(path, "/console/sign-out")["csrf"]}
        assert reader.send(action, form).status_code == 403


def test_letters_are_grouped_and_a_group_is_redriven_with_a_trial(
    operator: Visitor, database: Database, story: Story
) -> None:
    page = shown(operator, LETTERS)
    assert "Redrive 7…" in page
    assert "Redrive 3…" in page
    redrive = page.partition('">Redrive 7…')[0].rpartition('href="')[2].replace("&amp;", "&")
    assert "Nothing that it uses has changed" in shown(operator, redrive)
    fields = {"with_trial": "on", "trial": "2", "least": "2", "rate": "5"}
    assert "has begun" in operator.act(redrive, "/console/do/post/redrives", **fields)
    (begun,) = REDRIVES.page(database, PageRequest()).items
    assert (begun.trial, begun.least, begun.rate) == (2, 2, 5)
    assert set(begun.wanted) == {"endpoint", "error_type", "group"}
    assert "trial: 0 of 2 sent, 2 must succeed" in shown(operator, WALKS)
    operator.act(WALKS, f"/console/do/post/redrives/{begun.redrive_id}/stop")
    assert REDRIVES.get(database, begun.redrive_id).status is BulkJobStatus.STOPPED


def test_letter_is_redriven_or_archived_on_its_page(operator: Visitor, database: Database, story: Story) -> None:
    path = f"{LETTERS}/{story.letter}"
    assert "Nothing that it uses has changed" in shown(operator, path)
    after = operator.act(path, f"/console/do/post/dead-letters/{story.letter}/redrive")
    assert "It is redriven" in after
    assert "redriven" in shown(operator, path)
    other = f"/console/do/post/dead-letters/{story.letters[1]}/archive"
    assert operator.send(other, operator.form(f"{LETTERS}/{story.letters[1]}", other)).status_code == 400
    assert "It is archived" in operator.act(f"{LETTERS}/{story.letters[1]}", other, note="known")
    assert "known" in shown(operator, f"{LETTERS}?state=resolved")
    operator.get(f"{LETTERS}/att_unknown", 404)


def test_uncertain_deliveries_have_their_sequel(reader: Visitor, database: Database, story: Story) -> None:
    page = shown(reader, "/console/uncertain?endpoint=charge-card")
    assert story.failed in page
    assert "sent again" in page
    assert "No uncertain delivery matches" in shown(reader, "/console/uncertain?endpoint=send-mail")
    database.fetch(text("SELECT 1"))


@pytest.mark.parametrize("path", [EXECUTIONS, LETTERS, WALKS, "/console/uncertain"])
def test_empty_page_has_words(reader: Visitor, database: Database, path: str) -> None:
    assert 'class="empty"' in shown(reader, path)


def test_exception_of_an_actor_is_shown_with_its_traceback_and_causes(reader: Visitor, database: Database) -> None:
    rows.add_endpoint(database)
    (execution,) = rows.add_executions(database)
    error = {
        "type": "shop.Refused",
        "message": "no card",
        "category": "FATAL",
        "causes": ["KeyError: <card>"],
        "traceback": "Traceback:\n  line 7",
    }
    rows.add_attempt(database, execution, 1, "FAILED", error=error)
    rows.add_attempt(database, execution, 2, "FAILED", error=error | {"causes": 5, "traceback": [1]})
    database.fetch(text("UPDATE executions SET attempt_count = 2, max_attempts = 3"))
    page = shown(reader, f"{EXECUTIONS}/{execution}?region=attempts")
    for part in ("no card", "fatal", "caused by KeyError: &lt;card&gt;", "line 7"):
        assert page.count(part) == (2 if part in ("no card", "fatal") else 1), part
