"""Statements of a page: few, whatever it shows, so that an open console costs the database little."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from flask import Flask

from app.console.pages import PAGES, letters_page
from app.features.control import shared_figures
from app.features.control.fresh_reading import FreshReading
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.queue.bulk import bulk_job_kind
from benchmarks.console_addresses import addresses
from benchmarks.statement_costs import is_setting
from tests import rows
from tests.console_story import Story
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor
from tests.integration.registered import created, cron, register, register_all
from tests.integration.statements import Statements
from tests.waiting import HUNG_SECONDS

MAX_STATEMENTS = 12
NODES = 10


@pytest.fixture
def places(api: Api, database: Database) -> dict[str, str]:
    """Things of all kinds: executions in all states, letters, a workflow, definitions and five notification rules."""
    story = Story(database)
    register_all(api)
    register(api, "chat")
    limits = {"max_in_flight": 5, "rate": {"count": 1, "per": "1h"}}
    assert api.send("PATCH", "/endpoints/target", json={"limits": limits}).status_code == 200
    for number in range(5):
        rule = {"name": f"fails-{number}", "events": ["execution.failed"], "channels": ["chat"], "all": True}
        assert api.post("/notification-rules", rule).status_code == 201
    nodes = [
        {"name": "a", "endpoint": "chat"},
        *({"name": f"n{n}", "endpoint": "chat", "after": ["a"]} for n in range(NODES - 1)),
    ]
    return {
        "endpoint": "target",
        "name": "target",
        "notification_rule.name": "fails-0",
        "notification_edit.name": "fails-0",
        "catalogue_one.name": "config",
        "kind": "configs",
        "execution_id": story.failed,
        "letter_id": story.letter,
        "job_id": created(api, cron(input={"user_id": "u_1"}))["job_id"],
        "workflow_id": api.post("/workflows", {"name": "w", "nodes": nodes}).json["workflow_id"],
        "instant": "now",
    }


def test_each_page_runs_few_statements(
    app: Flask, places: Mapping[str, str], statements: Statements, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the figures that all viewers of a process share for some seconds."""
    app.extensions.pop(shared_figures.EXTENSION, None)
    monkeypatch.setattr(shared_figures, "FreshReading", lambda read: FreshReading(read, 3600))
    found = with_many_statements(app, statements, [each for page in PAGES for each in addresses(places, page.name)])
    app.extensions.pop(shared_figures.EXTENSION)
    assert found == {}


def test_pages_of_many_dead_letters_run_few_statements(
    app: Flask,
    places: Mapping[str, str],
    database: Database,
    statements: Statements,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also a filter without a match, however much time there is."""
    rows.add_letters(database, 150)
    monkeypatch.setattr(letters_page, "LIST", replace(letters_page.LIST, seconds=HUNG_SECONDS, size=2))
    monkeypatch.setattr(letters_page, "NEWEST", 4)
    monkeypatch.setitem(bulk_job_kind.preview.__kwdefaults__, "at_once", 10)
    previews = "/console/dead-letters/redrive", "/console/executions/bulk?action=retry"
    assert with_many_statements(app, statements, [*addresses(places, "letters"), *previews]) == {}


def with_many_statements(app: Flask, statements: Statements, wanted: Iterable[str]) -> dict[str, list[str]]:
    """Open pages twice; return the statements of those that run too many the second time."""
    admin, read = Visitor(app, Scope.ADMIN), dict[str, list[str]]()
    for address in wanted:
        assert "This part cannot be shown" not in admin.get(address), address
        statements.clear()
        admin.get(address)
        read[address] = [each for each in statements.texts if not is_setting(each)]
    return {address: texts for address, texts in read.items() if len(texts) > MAX_STATEMENTS}
