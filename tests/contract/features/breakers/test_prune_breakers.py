"""Pruning of breakers: old rows are deleted, rows in use stay."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.features.breakers.store import MAX_SLOTS, SLOT_NOW
from app.kernel.config import Settings
from app.kernel.db import Database
from app.scheduler.chore import ChoreContext
from tests import rows
from tests.chores import chores_of
from tests.contract.races.racing import never

HOUR = timedelta(hours=1)


@pytest.fixture
def pruner(database: Database, database_url: str) -> Any:
    settings = Settings(database_url=database_url, retention_days=7)
    return chores_of(ChoreContext(database, settings, hint=lambda _queue: None, stopping=never))


def age(database: Database, target: str, by: timedelta) -> None:
    database.fetch(
        text(
            "UPDATE breakers SET watched_until = watched_until - :by, open_until = open_until - :by"
            " WHERE target = :target RETURNING 1"
        ),
        {"by": by, "target": target},
    )


def names(database: Database, table: str) -> set[str]:
    return {row.target for row in database.fetch(text(f"SELECT target FROM {table}"))}


def test_closed_breakers_without_recent_failures_are_deleted(database: Database, pruner: Any) -> None:
    for name, state, by in [
        ("late", "closed", 2 * HOUR),
        ("recent", "closed", HOUR / 2),
        ("open", "open", HOUR / 2),
        ("forgotten", "open", 2 * HOUR),
    ]:
        rows.add_breaker(database, name, state)
        age(database, name, by)
        database.fetch(text("INSERT INTO breaker_endpoints VALUES (:name, 'endpoint')"), {"name": name})
    counts = pruner.prune_breakers()
    assert counts["breakers"] == 2
    assert names(database, "breakers") == names(database, "breaker_endpoints") == {"recent", "open"}
    (event,) = database.fetch(text("SELECT target, from_state, to_state, reason FROM breaker_events"))
    assert tuple(event) == ("forgotten", "open", "closed", "FORGOTTEN")


def test_counts_older_than_any_window_are_deleted(database: Database, pruner: Any) -> None:
    rows.add_breaker(database, "failing", "closed")
    for age in (0, MAX_SLOTS - 1, MAX_SLOTS + 2, 500):
        add = f"INSERT INTO breaker_counts VALUES ('failing', {SLOT_NOW} - CAST(:age AS BIGINT), 'e', 0, :age)"
        database.fetch(text(add), {"age": age})
    assert pruner.prune_breakers()["breaker_counts"] == 2
    left = database.fetch(text("SELECT failed FROM breaker_counts ORDER BY failed"))
    assert [row.failed for row in left] == [0, MAX_SLOTS - 1]


def test_breaker_events_are_deleted_after_the_retention(database: Database, pruner: Any) -> None:
    for days in (0, 6, 8):
        database.fetch(
            text(
                "INSERT INTO breaker_events (event_id, target, from_state, to_state, reason, occurred_at)"
                " VALUES (:id, 't', 'closed', 'open', 'FAILURES', now() - :age)"
            ),
            {"id": f"evt_{days}", "age": timedelta(days=days)},
        )
    counts = pruner.prune_breakers()
    assert counts["breaker_events"] == 1
