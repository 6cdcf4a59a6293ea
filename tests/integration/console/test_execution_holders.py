"""Holders on the page of an execution: the lease of its worker, the reclaim after it, and a late result."""

import pytest
from flask import Flask
from sqlalchemy import text

from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.console_story import Story
from tests.integration.console.visitor import Visitor
from tests.integration.statements import Statements

LOST = (
    (
        "UPDATE attempts SET started_at = now() - INTERVAL '120 seconds', completed_at = now() - INTERVAL '50 seconds',"
        """ error = '{"type": "WORKER_LOST"}' WHERE execution_id = :id AND attempt_number = 3"""
    ),
    (
        "INSERT INTO execution_events (event_id, execution_id, from_status, to_status, attempt_number, actor, reason,"
        " occurred_at) VALUES ('evt_1', :id, 'FAILED', 'FAILED', 3, 'w', 'STALE_RESULT', now() - INTERVAL '40 seconds')"
    ),
)


@pytest.fixture
def reader(app: Flask) -> Visitor:
    return Visitor(app, Scope.READ)


def test_lost_attempt_shows_its_lease_the_reclaim_and_its_late_result(reader: Visitor, database: Database) -> None:
    story = Story(database)
    database.fetch(text("UPDATE workers SET lease_expires_at = now() - INTERVAL '60 seconds'"))
    for change in LOST:
        database.fetch(text(change), {"id": story.failed})
    page = reader.get(f"/console/executions/{story.failed}")
    for words in ("its lease ended", "it was taken back 10.0 s later", "its result came"):
        assert words in page.partition("<h2>Attempts</h2>")[2], words
    for words in ("piece unheld", "piece refused", "nobody held it", "its late result was refused"):
        assert words in page.partition("<h2>Attempts</h2>")[0], words


def test_running_execution_shows_the_lease_of_its_worker(
    reader: Visitor, database: Database, statements: Statements
) -> None:
    story = Story(database)
    assert "Lease of the worker" in reader.get(f"/console/executions/{story.running}")
    statements.clear()
    assert "Lease of the worker" not in reader.get(f"/console/executions/{story.good}")
    assert not any("lease_expires_at AS at" in each for each in statements.texts), "no worker holds it or lost it"
