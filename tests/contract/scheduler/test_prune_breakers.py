"""Pruning of breakers: what nobody needs goes, what somebody waits for stays."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.features.breakers.rules import slot_at
from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.scheduler.chore import ChoreContext
from tests import rows
from tests.chores import chores_of
from tests.contract.races.racing import never

HOUR = timedelta(hours=1)


@pytest.fixture
def pruner(database: Database, database_url: str) -> Any:
    settings = Settings(database_url=database_url, retention_days=7)
    return chores_of(ChoreContext.of(database, settings, hint=lambda _queue: None, stopping=never))


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


def test_what_is_closed_and_had_no_failure_of_late_goes(database: Database, pruner: Any) -> None:
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
    assert (counts["forgotten"], counts["breakers"]) == (1, 2)
    assert names(database, "breakers") == names(database, "breaker_endpoints") == {"recent", "open"}
    (event,) = database.fetch(text("SELECT target, from_state, to_state, reason FROM breaker_events"))
    assert tuple(event) == ("forgotten", "open", "closed", "FORGOTTEN")


def test_counts_and_events_go_with_their_time(database: Database, pruner: Any) -> None:
    now = (rows.database_now(database) - EPOCH).total_seconds()
    for seconds in (0, 300, 600, 700, 10_000):
        database.fetch(
            text("INSERT INTO breaker_counts VALUES ('t', :slot, 'wrk_1', 1, 1)"), {"slot": slot_at(now - seconds)}
        )
    for days in (0, 6, 8):
        database.fetch(
            text(
                "INSERT INTO breaker_events (event_id, target, from_state, to_state, reason, occurred_at)"
                " VALUES (:id, 't', 'closed', 'open', 'FAILURES', now() - :age)"
            ),
            {"id": f"evt_{days}", "age": timedelta(days=days)},
        )
    counts = pruner.prune_breakers()
    assert (counts["breaker_counts"], counts["breaker_events"]) == (2, 1)
    assert len(names(database, "breaker_counts")) == 1
