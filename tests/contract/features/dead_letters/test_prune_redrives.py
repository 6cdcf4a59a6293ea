"""Pruning of redrives: finished redrives older than the retention are deleted."""

from sqlalchemy import text

from app.kernel.db import Database
from tests.contract.scheduler.conftest import chores


def test_all_redrives_older_than_the_retention_are_deleted_in_one_run(database: Database) -> None:
    """One batch per hourly run would delete fewer redrives than a client can start in an hour."""
    add = text(
        "INSERT INTO redrives (redrive_id, status, wanted, rate, ended_at) "
        "VALUES (:id, :status, '{}', 1, now() - CAST(:days AS BIGINT) * INTERVAL '1 day')"
    )
    for number, (status, days) in enumerate([("DONE", 31)] * 5 + [("STOPPED", 29), ("RUNNING", None)]):
        database.fetch(add, {"id": str(number), "status": status, "days": days})
    assert chores(database, batch=2).prune_redrives()["redrives"] == 5
    left = database.fetch(text("SELECT status FROM redrives ORDER BY status"))
    assert [row.status for row in left] == ["RUNNING", "STOPPED"]
