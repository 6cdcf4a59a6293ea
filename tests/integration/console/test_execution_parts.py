"""Parts of the page of an execution: callbacks, dead letters, the answer of the API, and the delivery as `curl`."""

import re

import pytest
from flask import Flask
from sqlalchemy import text

from app.console.views.curl_text import MAX_ARGUMENT
from app.features.dead_letters.letter_list import get_letter
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.console_story import Story
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor
from tests.integration.registered import created, one_shot, register, register_all
from tests.integration.statements import Statements

EXECUTIONS = "/console/executions"


@pytest.fixture
def reader(app: Flask) -> Visitor:
    return Visitor(app, Scope.READ)


def test_callbacks_of_version_and_job_are_named(reader: Visitor, api: Api) -> None:
    for name in ("archive", "page"):
        register(api, name)
    register(api, "report", callbacks={"on_success": "archive", "on_failure": "archive"})
    job = created(api, one_shot("r-1", endpoint="report", callbacks={"on_success": None, "on_failure": "page"}))
    path = f"{EXECUTIONS}/{job['execution']['execution_id']}"
    page = reader.get(path)
    assert re.findall(r'(on \w+): <a class="id" href="/console/endpoints/(\w+)"', page) == [("on failure", "page")]
    assert "it has not ended" in page
    anchors = re.findall(r'<a href="#([\w-]+)">', page.partition('<nav class="sections"')[2].partition("</nav>")[0])
    assert [each for each in anchors if f'id="{each}"' not in page] == []


def test_refresh_of_the_end_renders_no_request(reader: Visitor, database: Database, statements: Statements) -> None:
    """The request of an execution is constant, and belongs to the frame of its page."""
    execution_id = Story(database).waiting[0]

    def renders(address: str) -> bool:
        statements.clear()
        reader.get(address)
        return any("endpoint_versions" in each for each in statements.texts)

    assert renders(f"{EXECUTIONS}/{execution_id}")
    assert not renders(f"{EXECUTIONS}/{execution_id}?region=ends")


def test_jobs_that_a_log_names_are_links(reader: Visitor, database: Database) -> None:
    story = Story(database)
    job = get_letter(database, story.letter).job_id
    line = text(
        "INSERT INTO execution_logs (log_id, execution_id, attempt_number, level, message)"
        " VALUES ('log_1', :id, 3, 'INFO', :message)"
    )
    message = f"on_failure: 'page' is called back by the job {job}"
    database.fetch(line, {"id": story.failed, "message": message})
    page = reader.get(f"{EXECUTIONS}/{story.failed}?region=log")
    assert f'by the job <a class="id" href="/console/jobs/{job}">{job}</a>' in page


def test_dead_letters_are_named_after_the_end(reader: Visitor, database: Database) -> None:
    story = Story(database)
    failed = get_letter(database, story.letter).execution_id
    assert f'<a href="/console/dead-letters/{story.letter}">open</a>, failed' in reader.get(f"{EXECUTIONS}/{failed}")


def test_dead_letters_of_an_earlier_end_are_named_while_it_runs_again(app: Flask, database: Database) -> None:
    operator, story = Visitor(app, Scope.READ, Scope.JOBS_WRITE), Story(database)
    path = f"{EXECUTIONS}/{get_letter(database, story.letter).execution_id}"
    operator.act(path, f"/console/do/post{path.removeprefix('/console')}/retry")
    ends = operator.get(f"{path}?region=ends")
    assert f'<a href="/console/dead-letters/{story.letter}">retried</a>' in ends
    assert "it has not ended" not in ends
    retrying = "UPDATE executions SET status = 'RETRYING', run_at = now() + INTERVAL '1 hour' WHERE execution_id = :id"
    database.fetch(text(retrying), {"id": path.rpartition("/")[2]})
    assert f'<a href="/console/dead-letters/{story.letter}">retried</a>' in operator.get(f"{path}?region=ends")
    assert "it has not ended" in operator.get(f"{EXECUTIONS}/{story.retrying}?region=ends")


def test_wait_says_since_when_it_lasts_and_forecasts_its_end(reader: Visitor, database: Database) -> None:
    story = Story(database)
    path = f"{EXECUTIONS}/{story.waiting[2]}?region=life"
    assert "<dt>Waits so since</dt>" in reader.get(path)
    assert "Forecast" not in reader.get(path)  # nobody has counted deliveries
    add_deliveries(database, ["", "send-mail"])
    assert re.fullmatch(r"about \d+\.\d s at the present \d+\.\d/(s|min)(, the share .*)?", forecast(reader.get(path)))
    assert "<dt>Until</dt>" in reader.get(f"{EXECUTIONS}/{story.later[0]}?region=life")
    assert "Waits so since" not in reader.get(f"{EXECUTIONS}/{story.failed}?region=life")


def test_forecast_needs_the_speed_of_the_own_line(reader: Visitor, database: Database) -> None:
    """An endpoint without a line of its own, old counts and lines of keys have no forecast."""
    story = Story(database)
    path = f"{EXECUTIONS}/{story.waiting[2]}?region=life"
    add_deliveries(database, [""])
    assert forecast(reader.get(path)) == "its endpoint delivered nothing in the last 4 min that were counted"
    add_deliveries(database, ["*"])
    assert forecast(reader.get(path)) == ""
    add_deliveries(database, ["send-mail"])
    assert forecast(reader.get(path)) != ""
    database.fetch(text("UPDATE executions SET limit_key = '=u_1'"))
    page = reader.get(path)
    assert "It is due, and waits behind 2 of its endpoint" in page
    assert forecast(page) == ""
    database.fetch(text("UPDATE executions SET limit_key = ''"))
    database.fetch(text("DELETE FROM delivery_rollups WHERE slot > now() - INTERVAL '3 minutes'"))
    assert forecast(reader.get(path)) == ""


def add_deliveries(database: Database, endpoints: list[str]) -> None:
    """Count 60 attempts a minute, in the last four whole minutes."""
    rollup = text(
        "INSERT INTO delivery_rollups (endpoint, step_s, slot, attempts, succeeded)"
        " SELECT endpoint, 60, date_trunc('minute', now()) - number * INTERVAL '1 minute', 60, 60"
        " FROM unnest(CAST(:endpoints AS TEXT[])) AS e (endpoint), generate_series(1, 4) AS s (number)"
    )
    database.fetch(rollup, {"endpoints": endpoints})


def forecast(page: str) -> str:
    """Return the forecast of a page, or an empty text."""
    return "".join(re.findall(r"<dt>Forecast</dt><dd>([^<]*)</dd>", page))


def test_delivery_is_shown_as_curl_with_its_key(reader: Visitor, api: Api) -> None:
    register_all(api)
    execution_id = created(api, one_shot("o-1"))["execution"]["execution_id"]
    page = reader.get(f"{EXECUTIONS}/{execution_id}").replace("&#39;", "'").replace("&#34;", '"')
    for words in (
        "curl -sS -g -i -X POST http://127.0.0.1:9/hook",
        f"-H 'Idempotency-Key: {execution_id}'",
        "-H 'Authorization: Bearer [secret token]'",
        """--data-raw '{"user":"u_1"}'""",
        f"flask --app app executions show {execution_id}",
        f'"execution_id": "{execution_id}"',
    ):
        assert words in page, words
    assert "The signature is left out" not in page


def test_delivery_says_what_its_command_leaves_out(reader: Visitor, api: Api) -> None:
    assert api.post("/secrets", {"name": "key", "value": "s3cret"}).status_code == 201
    spec = {
        "url": "http://127.0.0.1:9/hook",
        "body_template": "{{input.text}}",
        "signing": {"secret": "{{secret.key}}"},
    }
    register(api, spec=spec)
    for length, told, withheld in (
        (9, "The signature is left out.", "too long"),
        (MAX_ARGUMENT, "The delivery is too long for a command.", "curl -sS -g"),
    ):
        execution = created(api, one_shot(f"o-{length}", input={"text": "x" * length}))["execution"]
        page = reader.get(f"{EXECUTIONS}/{execution['execution_id']}")
        assert told in page
        assert withheld not in page
