"""Chores of the scheduler over a database of the contract tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.config import Settings
from app.kernel.db import Database
from app.queue.executions.watermark import PACE, ScanPace
from app.scheduler.chore import BATCH, LATE_PER_PASS, ChoreContext, Stopping
from tests.chores import chores_of
from tests.contract.races.racing import Hints, never, schedulers


def context(
    database: Database,
    *,
    hints: Hints | None = None,
    stopping: Stopping = never,
    batch: int = BATCH,
    late_per_pass: int = LATE_PER_PASS,
    scan_pace: ScanPace = PACE,
    **changes: object,
) -> ChoreContext:
    """Make the context of chores: default settings except no look-ahead, and the given changes."""
    values: dict[str, object] = {"look_ahead_seconds": 0.0} | changes
    settings = Settings(**values)  # type: ignore[arg-type]
    return ChoreContext(
        database,
        settings,
        hint=hints or Hints(),
        stopping=stopping,
        batch=batch,
        late_per_pass=late_per_pass,
        scan_pace=scan_pace,
    )


def chores(database: Database, **changes: Any) -> Any:
    """Make the chores of a context with the given changes."""
    return chores_of(context(database, **changes))


@contextmanager
def held(database: Database, table: str, *row_ids: str, how: str = "FOR UPDATE") -> Iterator[None]:
    """Lock rows in a transaction that stays open."""
    key = {"jobs": "job_id", "executions": "execution_id"}[table]
    with database.engine.begin() as connection:
        query = text(f"SELECT {key} FROM {table} WHERE {key} = ANY (:ids) {how}")
        assert len(connection.execute(query, {"ids": list(row_ids)}).all()) == len(row_ids)
        yield


@contextmanager
def holding(database: Database, query: str) -> Iterator[None]:
    """Lock the rows of a query in a transaction that stays open."""
    with database.engine.begin() as connection:
        assert connection.execute(text(f"{query} FOR UPDATE")).all()
        yield


@pytest.fixture(params=["read committed", "serializable"])
def scheduler_database(database: Database, database_url: str, request: pytest.FixtureRequest) -> Iterator[Database]:
    """The database of a scheduler, at each isolation level."""
    with schedulers(database_url, request.param, 1) as (database_of_scheduler,):
        yield database_of_scheduler
