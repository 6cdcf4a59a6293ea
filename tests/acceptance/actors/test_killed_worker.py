"""Kill of the worker while an actor runs."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from tests import rows
from tests.acceptance.actors.conftest import User
from tests.acceptance.limits import SHORT_LEASE
from tests.enqueueing import adopt_settings
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only]


def errors_of(database: Database) -> list[str]:
    found = text("SELECT error->>'type' AS type FROM attempts WHERE error IS NOT NULL ORDER BY attempt_number")
    return [row.type for row in database.fetch(found)]


def test_late_outcome_after_the_death_of_the_worker_is_refused(
    user: User, tasks: Any, database: Database, tmp_path: Path
) -> None:
    """No process of the API runs: the database gets its settings here."""
    adopt_settings(database)
    first = user.worker(**SHORT_LEASE)
    user.stack.scheduler(**SHORT_LEASE)
    runner = user.process(threads=2)
    word = str(tmp_path / "go")
    eventually(lambda: database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'hold'")))
    tasks.hold.send(word)
    eventually(lambda: user.lines() == [f"hold {word}"])
    first.kill()
    user.worker(**SHORT_LEASE)
    eventually(lambda: user.lines().count(f"hold {word}") == 2, what="the second run")
    Path(word).touch()
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 1})
    assert errors_of(database) == ["WORKER_LOST"]
    eventually(lambda: "came too late or twice, and changes nothing" in runner.log.read_text(), what="the refusal")
    assert user.lines().count(f"held {word}") == 2
