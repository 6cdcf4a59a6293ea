"""Closed inputs and answers: hidden on pages, in regions and in exports, until a person opens them for one thing."""

import logging
import re
from collections.abc import Iterator

import pytest
from flask import Flask
from sqlalchemy import text

from app.console.pages import all_pages
from app.console.pages.list_exports import EXPORTS
from app.kernel.access.api_keys import Scope
from app.kernel.config import Settings
from app.kernel.db import Database
from benchmarks.console_addresses import addresses
from tests import rows
from tests.console_story import Story
from tests.integration.client import Api, running
from tests.integration.console.visitor import Visitor
from tests.integration.registered import created, cron, register, register_all

INPUT, ANSWER, DEFINED = "hidden-input-4711", "try later", "hidden-definition-4711"
OPENED = "opened inputs and answers"


@pytest.fixture
def closed(database_url: str) -> Iterator[Flask]:
    with running(Settings(database_url=database_url, console_inputs="closed")) as app:
        yield app


@pytest.fixture
def places(api: Api, database: Database) -> dict[str, str]:
    """Things with marked inputs and answers; the job of a schedule has two versions."""
    story = Story(database)
    register_all(api)
    register(api, "chat")
    database.fetch(text("UPDATE jobs SET input = CAST(:input AS JSONB)"), {"input": f'{{"order": "{INPUT}"}}'})
    nodes = [{"name": "a", "endpoint": "chat", "input": {"text": DEFINED}}]
    rows.add_rule(database, "target", "chat")
    before = created(api, cron(input={"user_id": f"{INPUT}-1"}))["job_id"]
    changed = api.send("PUT", f"/jobs/{before}", json={"input": {"user_id": f"{INPUT}-2"}})
    assert changed.status_code == 200
    workflow = api.post("/workflows", {"name": "w", "nodes": nodes, "input": {"order": INPUT}}).json["workflow_id"]
    return {
        "endpoint": "target",
        "name": "target",
        "catalogue_one.name": "config",
        "kind": "configs",
        "execution_id": story.failed,
        "letter_id": story.letter,
        "job_id": changed.json["job_id"],
        "workflow_id": workflow,
        "instant": "now",
    }


def regions_of(shown: str) -> set[str]:
    """Return the addresses of the regions of a page."""
    return {each.replace("&amp;", "&") for each in re.findall(r'hx-get="([^"]+region=[^"]+)"', shown)}


def leaks(text: str) -> list[str]:
    return [secret for secret in (INPUT, ANSWER, DEFINED) if secret in text]


def test_no_page_region_or_export_shows_an_input_or_an_answer(
    closed: Flask, places: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    admin = Visitor(closed, Scope.ADMIN)
    pages = [each for page in all_pages() if page.name != "schedule_editor" for each in addresses(places, page.name)]
    pages += [f"/console/workflows/{places['workflow_id']}?node=a"]
    regions = {each for page in pages for each in regions_of(admin.get(page))}
    assert {"life", "attempts", "versions", "state", "node"} <= {each.partition("region=")[2] for each in regions}
    # A region stays closed, also if its address asks for more.
    wanted = [*pages, *regions, *(f"{each}&inputs=shown" for each in regions)]
    wanted += [f"/console{each.path}/export?format={kind}" for each in EXPORTS for kind in ("csv", "ndjson")]
    texts = {each: admin.browser.get(each).get_data(as_text=True) for each in wanted}
    found = {each: leaks(text) for each, text in texts.items() if leaks(text)}
    assert found == {}
    assert OPENED not in caplog.text


def test_person_opens_one_and_the_log_has_a_line(
    closed: Flask, places: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    admin = Visitor(closed, Scope.ADMIN)
    job, workflow, execution = (f"/console/{each}" for each in (
        f"jobs/{places['job_id']}", f"workflows/{places['workflow_id']}", f"executions/{places['execution_id']}"
    ))  # fmt: skip
    opens = {
        f"{execution}?inputs=shown": ("execution", places["execution_id"], [INPUT, ANSWER]),
        f"{job}?inputs=shown": ("job", places["job_id"], [INPUT]),
        f"{workflow}?inputs=shown": ("workflow", places["workflow_id"], [INPUT]),
        f"{workflow}?node=a&inputs=shown": ("workflow", places["workflow_id"], [INPUT, DEFINED]),
        f"{job}/edit": ("job", places["job_id"], [INPUT]),
        f"/console/jobs/new?like={places['job_id']}": ("job", places["job_id"], [INPUT]),
    }
    for address, (noun, name, secrets) in opens.items():
        caplog.clear()
        assert leaks(admin.get(address)) == secrets, address
        (line,) = [each.getMessage() for each in caplog.records if OPENED in each.getMessage()]
        assert line.startswith("the key visitor (")
        assert line.endswith(f"{noun} {name}")


def test_open_inputs_are_shown_and_no_line_is_written(
    app: Flask, places: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    admin = Visitor(app, Scope.ADMIN)
    assert leaks(admin.get(f"/console/executions/{places['execution_id']}")) == [INPUT, ANSWER]
    assert leaks(admin.get(f"/console/workflows/{places['workflow_id']}?node=a")) == [INPUT, DEFINED]
    assert "is closed" not in admin.get(f"/console/jobs/{places['job_id']}")
    assert OPENED not in caplog.text
