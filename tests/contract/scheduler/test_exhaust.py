"""Manually edited rows without attempts left: each fails with a reason, and no other row changes."""

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.queue.executions import repairs
from app.scheduler.finding import MAX_COUNTED
from tests import rows
from tests.contract.scheduler.conftest import chores


@pytest.mark.parametrize("status", ["QUEUED", "RETRYING"])
def test_waiting_execution_without_attempts_left_fails(database: Database, status: str) -> None:
    rows.add_executions(database, MAX_COUNTED + 3, status=status, max_attempts=2)
    database.fetch(text("UPDATE executions SET attempt_count = 2, run_at = now() - INTERVAL '2 minutes'"))
    (good,) = rows.add_executions(database, status=status, max_attempts=2)
    (young,) = rows.add_executions(database, status=status)
    database.fetch(
        text("UPDATE executions SET attempt_count = 1 WHERE execution_id IN (:good, :young)"),
        {"good": good, "young": young},
    )
    assert chores(database).repair()["failed"] == MAX_COUNTED + 3
    assert rows.statuses(database) == {"FAILED": MAX_COUNTED + 3, status: 2}
    events = database.fetch(text("SELECT DISTINCT from_status, to_status, reason FROM execution_events"))
    assert [tuple(event) for event in events] == [(status, "FAILED", "NO_ATTEMPTS_LEFT")]
    retired = database.fetch(text("SELECT count(*) AS n FROM jobs WHERE status = 'RETIRED'"))[0].n
    assert retired == MAX_COUNTED + 3
    assert chores(database).repair()["failed"] == 0


def test_scan_of_the_whole_backlog_locks_no_row() -> None:
    """Claims skip locked rows, so a scan that locked rows would hide them from claims."""
    assert "FOR " not in repairs.EXHAUSTED.text


def test_scan_walks_the_backlog_by_pages(database: Database) -> None:
    """A statement that reads the whole backlog exceeds the statement timeout, each time."""
    wanted = set[str]()
    for queue in ("a", "b"):
        due = rows.add_executions(database, 20, max_attempts=2, shards=3)
        used_up = due[::3]
        where = "execution_id = ANY (:ids)"
        database.fetch(text(f"UPDATE executions SET queue = :queue WHERE {where}"), {"queue": queue, "ids": due})
        database.fetch(text(f"UPDATE executions SET attempt_count = 2 WHERE {where}"), {"ids": used_up})
        wanted.update(used_up)
    database.fetch(text("UPDATE executions SET run_at = now() - INTERVAL '2 minutes'"))
    found = repairs.exhausted(database, limit=1_000, page=3)
    assert sorted((row.execution_id, row.status) for row in found) == [(each, "QUEUED") for each in sorted(wanted)]
    assert len(repairs.exhausted(database, limit=5, page=3)) == 5
    assert repairs.exhausted(database, limit=1_000, page=3, stopping=lambda: True) == []
