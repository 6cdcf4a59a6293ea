"""Groups of dead letters: each says whether a redrive has prospects, by few statements for all."""

from itertools import count

import pytest
from flask import Flask
from sqlalchemy import text

from app.console.pages import letters_page
from app.features.dead_letters import since_failure
from app.features.dead_letters.letter_list import get_letter
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests import rows
from tests.integration.client import Api
from tests.integration.console.page_statements import MAX_STATEMENTS
from tests.integration.console.visitor import Visitor
from tests.integration.registered import register
from tests.integration.statements import Statements
from tests.waiting import HUNG_SECONDS

PATH = "/console/dead-letters"
SPEC = {"url": "https://pay.example", "headers": {"X": "{{secret.key}}"}}


@pytest.fixture
def admin(app: Flask) -> Visitor:
    return Visitor(app, Scope.ADMIN)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letters_page, "PATIENCE_SECONDS", HUNG_SECONDS)


def failed(database: Database, endpoint: str) -> str:
    (execution,) = rows.add_executions(database, endpoint=endpoint)
    return rows.add_letter(database, execution)


def test_groups_tell_the_prospects_of_a_redrive(api: Api, database: Database, admin: Visitor) -> None:
    letters = {name: failed(database, register(api, name, spec={"url": "https://a"})) for name in ("same", "new")}
    failed(database, "same")
    paused = failed(database, register(api, "paused"))
    assert api.post("/endpoints/paused/pause").status_code == 200
    etag = api.get("/endpoints/new").headers["ETag"]
    body = {"type": "HTTP", "spec": SPEC | {"headers": {}}}
    assert api.put("/endpoints/new", body, headers={"If-Match": etag}).status_code == 200
    page = admin.get(PATH)
    for words in ("The endpoint is paused", "The endpoint has version 2 now", "Nothing that it uses has changed"):
        assert words in page, words
    for letter in (letters["new"], paused):
        assert f'/dead-letters/{letter}" title="The letter that failed last"' in page


def test_groups_are_shown_without_prospects_that_cannot_be_read(
    api: Api, database: Database, admin: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed(database, register(api))
    assert "Nothing that it uses has changed" in admin.get(PATH)
    with monkeypatch.context() as broken:
        broken.setattr(since_failure, "VERSIONS", text("SELECT 1 / 0"))
        page = admin.get(PATH)
    assert "Redrive 1…" in page
    assert "Nothing that it uses" not in page
    monkeypatch.setattr(letters_page, "PATIENCE_SECONDS", 0)
    page = admin.get(PATH)
    assert "Redrive 1…" in page
    assert "Nothing that it uses" not in page


def test_prospects_end_with_their_time(api: Api, database: Database) -> None:
    letters = [get_letter(database, failed(database, register(api, name))) for name in ("early", "late")]
    for seconds, judged in ((0, 0), (2, 0), (HUNG_SECONDS, 2)):
        found = since_failure.since_failures(database, letters, seconds=seconds, clock=count().__next__)
        assert len(found) == judged, seconds


@pytest.mark.postgresql_only  # CockroachDB reads each group apart
def test_many_groups_run_few_statements(api: Api, database: Database, admin: Visitor, statements: Statements) -> None:
    assert api.post("/secrets", {"name": "key", "value": "hunter2"}).status_code == 201
    names = [register(api, f"e-{number}", spec=SPEC) for number in range(20)]
    for name in names:
        failed(database, name)
    etag = api.get("/secrets/key").headers["ETag"]
    assert api.put("/secrets/key", {"value": "swordfish"}, headers={"If-Match": etag}).status_code == 200
    assert admin.get(PATH).count("1 value that it uses changed since") == len(names)
    statements.clear()
    admin.get(PATH)
    assert len(statements.texts) <= MAX_STATEMENTS, statements.texts


def test_preview_tells_how_long_a_redrive_takes_at_its_rate(api: Api, database: Database, admin: Visitor) -> None:
    register(api)
    rows.add_letters(database, 60)
    for query, words in (("", "At 20 a second it takes about 3.0 s."), ("&rate=1", "takes about 1 min")):
        assert words in admin.get(f"{PATH}/redrive?endpoint=target{query}"), query


def test_empty_list_names_the_resolution_of_the_last_letter(
    api: Api, database: Database, admin: Visitor, statements: Statements
) -> None:
    register(api)
    assert "No open letter: there is nothing to do" in admin.get(PATH)
    assert "last letter" not in admin.get(PATH)
    for execution in rows.add_executions(database, 2):
        letter = rows.add_letter(database, execution)
        assert "last letter" not in admin.get(PATH), "a letter is open"
        assert api.post(f"/dead-letters/{letter}/archive", {"note": "known"}).status_code == 200
    page = admin.get(PATH)
    assert f'The <a href="{PATH}/{letter}">last letter</a>, of target, was archived by test <time' in page
    assert "last letter" not in admin.get(f"{PATH}?endpoint=target"), "of another list"
    statements.clear()
    admin.get(PATH)
    assert len(statements.texts) <= MAX_STATEMENTS
