"""Chores over a database of the contract ring."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.config import Settings
from app.kernel.db import Database
from app.scheduler.chore import ChoreContext, Stopping
from tests import rows
from tests.chores import chores_of
from tests.contract.races.racing import Hints, never, schedulers


def chores(database: Database, *, hints: Hints | None = None, stopping: Stopping = never, **changes: object) -> Any:
    """Make the chores with the default settings, but one shard and no look-ahead, and these changes."""
    values: dict[str, object] = {"queue_shards": 1, "look_ahead_seconds": 0.0} | changes
    settings = Settings(**values)  # type: ignore[arg-type]
    return chores_of(ChoreContext.of(database, settings, hint=hints or Hints(), stopping=stopping))


@pytest.fixture
def aged(database: Database) -> Database:
    """An endpoint whose executions may wait for a minute, in their first attempts too."""
    rows.add_endpoint(database, "aged", retry_policy={"max_attempts": 3, "max_age_ms": 60_000})
    return database


@contextmanager
def held(database: Database, table: str, *row_ids: str, how: str = "FOR UPDATE") -> Iterator[None]:
    """Lock rows in a transaction that stays open."""
    key = {"jobs": "job_id", "executions": "execution_id"}[table]
    with database.engine.begin() as connection:
        query = text(f"SELECT {key} FROM {table} WHERE {key} = ANY (:ids) {how}")
        assert len(connection.execute(query, {"ids": list(row_ids)}).all()) == len(row_ids)
        yield


@pytest.fixture(params=["read committed", "serializable"])
def ours(database: Database, database_url: str, request: pytest.FixtureRequest) -> Iterator[Database]:
    """The database of a scheduler, at each isolation level."""
    with schedulers(database_url, request.param, 1) as (one,):
        yield one
