"""Chores over a database of the contract ring."""

import pytest

from app.config import Settings
from app.db import Database
from app.scheduler.chore import Stopping
from app.scheduler.chores import Chores
from tests import rows
from tests.contract.races.racing import Hints, never


def chores(database: Database, *, hints: Hints | None = None, stopping: Stopping = never, **changes: object) -> Chores:
    """Make the chores with the default settings, but one shard and no look-ahead, and these changes."""
    values: dict[str, object] = {"queue_shards": 1, "look_ahead_seconds": 0.0} | changes
    return Chores(database, Settings(**values), hint=hints or Hints(), stopping=stopping)  # type: ignore[arg-type]


@pytest.fixture
def aged(database: Database) -> Database:
    """An endpoint whose executions may wait for a minute, in their first attempts too."""
    rows.add_endpoint(database, "aged", retry_policy={"max_attempts": 3, "max_age_ms": 60_000})
    return database
