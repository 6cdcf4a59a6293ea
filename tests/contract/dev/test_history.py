"""A history for measurements has the requested number of rows of each kind."""

import pytest
from sqlalchemy import text

from app.kernel import ids
from app.kernel.db import Database
from benchmarks import history


@pytest.mark.postgresql_only
def test_history_has_the_requested_number_of_rows_of_each_kind(database: Database, database_url: str) -> None:
    history.build(database_url, finished=10_000, future=1_000, shards=2)
    counts = {
        "status": text("SELECT status, count(*) FROM executions GROUP BY status"),
        "trigger": text("SELECT trigger_type, count(*) FROM jobs GROUP BY trigger_type"),
        "shard": text("SELECT shard, count(*) FROM executions GROUP BY shard"),
        "rare": text("SELECT endpoint, count(*) FROM executions WHERE endpoint = 'history-rare' GROUP BY endpoint"),
    }
    found = {name: {row[0]: row[1] for row in database.fetch(query)} for name, query in counts.items()}
    assert found == {
        "status": {"SUCCESS": 9_700, "FAILED": 200, "CANCELLED": 100, "PENDING": 1_000},
        "trigger": {"IMMEDIATE": 9_000, "DELAYED": 1_000, "CRON": 1},
        "shard": {0: 5_500, 1: 5_500},
        "rare": {"history-rare": 50},
    }


@pytest.mark.postgresql_only
def test_no_row_of_a_history_is_due_within_a_day(database: Database, database_url: str) -> None:
    history.build(database_url, finished=100, future=100)
    (row,) = database.fetch(
        text(
            "SELECT (SELECT count(*) FROM executions WHERE completed_at IS NULL AND run_at < now() + "
            "INTERVAL '23 hours') + (SELECT count(*) FROM jobs WHERE cron_next_run_at < now() + INTERVAL '23 hours')"
        )
    )
    assert row[0] == 0


@pytest.mark.postgresql_only
def test_ids_of_a_history_follow_creation_time_and_precede_new_ids(database: Database, database_url: str) -> None:
    history.build(database_url, finished=200, future=20)
    stored = [
        database.fetch(text(f"SELECT execution_id FROM executions ORDER BY {order}"))
        for order in ("execution_id", "created_at, execution_id")
    ]
    assert stored[0] == stored[1]
    assert stored[0][-1][0] < ids.execution_id()
