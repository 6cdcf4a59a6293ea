"""Statements of a page: few even for much content, so that an open console costs the database little."""

from collections.abc import Mapping

import pytest
from flask import Flask
from sqlalchemy import text

from app.console.pages import all_pages, letters_page
from app.features.control import shared_figures
from app.features.control.fresh_reading import FreshReading
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.bulk import bulk_job_kind
from benchmarks.console_addresses import addresses
from tests import rows
from tests.console_story import Story
from tests.integration.client import Api
from tests.integration.console.page_statements import Waits, with_many_statements
from tests.integration.console.visitor import Visitor
from tests.integration.registered import created, cron, one_shot, register, register_all
from tests.integration.statements import Statements
from tests.waiting import HUNG_SECONDS

WORDS = {
    "broken": "breaker",
    "paused": "its endpoint &#39;paused&#39; is paused",
    "limited": "max_in_flight",
    "queued": "its queue &#39;still&#39; is paused",
    "unserved": "no live worker",
    "behind": "waits behind",
    "later": "It is due at",
}
NODES = 10


@pytest.fixture
def places(api: Api, database: Database) -> dict[str, str]:
    """Things of all kinds: executions in all states, letters, a workflow, definitions and five notification rules."""
    story = Story(database)
    # Or it would be due on a slow machine, and be explained, too.
    later = text("UPDATE executions SET run_at = now() + INTERVAL '1 hour' WHERE execution_id = :id")
    database.fetch(later, {"id": story.retrying})
    register_all(api)
    register(api, "chat")
    limits = {"max_in_flight": 5, "rate": {"count": 1, "per": "1h"}}
    assert api.send("PATCH", "/endpoints/target", json={"limits": limits}).status_code == 200
    for name in ("target", "r1", "r2", "r3", "r4"):
        rows.add_rule(database, name, "chat")
    nodes = [
        {"name": "a", "endpoint": "chat"},
        *({"name": f"n{n}", "endpoint": "chat", "after": ["a"]} for n in range(NODES - 1)),
    ]
    return {
        "endpoint": "target",
        "name": "target",
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
    found = with_many_statements(
        app, statements, [each for page in all_pages() for each in addresses(places, page.name)]
    )
    app.extensions.pop(shared_figures.EXTENSION)
    assert found == {}


@pytest.mark.postgresql_only  # CockroachDB reads the prospects of each group apart
def test_pages_of_many_dead_letters_run_few_statements(
    app: Flask,
    places: Mapping[str, str],
    database: Database,
    statements: Statements,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also a filter without a match, however much time there is."""
    rows.add_letters(database, 150)
    monkeypatch.setattr(letters_page, "LIST", letters_page.LIST._replace(seconds=HUNG_SECONDS, size=2))
    monkeypatch.setattr(letters_page, "NEWEST", 4)
    monkeypatch.setattr(letters_page, "PATIENCE_SECONDS", HUNG_SECONDS)
    monkeypatch.setitem(bulk_job_kind.preview.__kwdefaults__, "at_once", 10)
    previews = "/console/dead-letters/redrive", "/console/executions/bulk?action=retry"
    assert with_many_statements(app, statements, [*addresses(places, "letters"), *previews]) == {}


def test_list_without_a_match_runs_few_statements(
    app: Flask, places: Mapping[str, str], statements: Statements
) -> None:
    """It reads once more for each field of its filter."""
    wanted = "endpoint=target&status=FAILED&since=2h&error_type=NONE&labels=team%3Dnobody&name=nobody&queue=http"
    assert with_many_statements(app, statements, [f"/console/executions?{wanted}"]) == {}


def test_pages_of_waiting_and_ended_executions_run_few_statements(
    app: Flask, api: Api, places: Mapping[str, str], database: Database, statements: Statements
) -> None:
    """Behind a breaker with many endpoints, a pause, a limit, others, a missing worker, in a workflow, and ended."""
    waits = Waits(api, database)
    workflow = api.get(f"/workflows/{places['workflow_id']}/nodes").json["items"]
    node = next(each["execution_id"] for each in workflow if each["execution_id"])
    ids = [places["execution_id"], node, *waits.last.values(), *executions_of(database)]
    admin = Visitor(app, Scope.ADMIN)
    shown = {name: admin.get(f"/console/executions/{each}") for name, each in waits.last.items()}
    assert {name for name, words in WORDS.items() if words not in shown[name]} == set()
    assert with_many_statements(app, statements, [f"/console/executions/{each}" for each in dict.fromkeys(ids)]) == {}


def test_page_of_an_execution_with_all_that_a_job_can_have_runs_few_statements(
    app: Flask, api: Api, places: Mapping[str, str], database: Database, statements: Statements
) -> None:
    """A config, secrets, callbacks, limits of endpoint and key, higher priorities before it, and an earlier attempt."""
    bound = {"max_in_flight": 1, "rate": {"count": 1, "per": "1h"}}
    calls = {"on_failure": "chat", "on_attempt_failed": "chat", "on_success": "chat"}
    spec = {"url": "{{config.base}}/x", "headers": {"Authorization": "{{secret.token}}"}}
    limits = {**bound, "per_key": {"key": "{{input.user_id}}", "max_in_flight": 5}}
    register(api, "all", spec=spec, config="config", payload_spec="spec", callbacks=calls, limits=limits)
    worker_lease.register(database, worker_id="w", host="h", pid=1, queues=["http"], capacity=9, lease_ms=6_000_000)
    for number in range(12):
        created(api, one_shot(f"o-{number}", endpoint="all", priority=10 * number, labels={"team": "billing"}))
    rows.move_to_one_shard(database)
    running, *_, waiting = executions_of_endpoint(database, "all")
    for change in (
        (
            "INSERT INTO attempts (attempt_id, execution_id, attempt_number, status, started_at, completed_at, error,"
            " led_to) VALUES ('att_1', :waiting, 1, 'FAILED', now(), now(), '{\"type\": \"TIMEOUT\"}', 'RETRYING')"
        ),
        "UPDATE executions SET status = 'RETRYING', attempt_count = 1, max_attempts = 3 WHERE execution_id = :waiting",
        (
            "UPDATE executions SET status = 'RUNNING', worker_id = 'w', started_at = now(), attempt_count = 1"
            " WHERE execution_id = :running"
        ),
    ):
        database.fetch(text(change), {"waiting": waiting, "running": running})
    page = Visitor(app, Scope.ADMIN).get(f"/console/executions/{waiting}")
    assert "has reached max_in_flight" in page
    assert "10 go before it" in page
    assert with_many_statements(app, statements, [f"/console/executions/{waiting}"]) == {}


def executions_of_endpoint(database: Database, endpoint: str) -> list[str]:
    """Return the executions of an endpoint, from the highest priority to the lowest."""
    query = text("SELECT execution_id FROM executions WHERE endpoint = :endpoint ORDER BY priority DESC")
    return [row.execution_id for row in database.fetch(query, {"endpoint": endpoint})]


def executions_of(database: Database) -> list[str]:
    """Return an execution of each status and endpoint."""
    query = text("SELECT min(execution_id) AS id FROM executions GROUP BY endpoint, status ORDER BY 1")
    return [row.id for row in database.fetch(query)]
