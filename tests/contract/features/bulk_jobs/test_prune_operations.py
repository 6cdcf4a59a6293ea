"""Pruning of bulk operations: finished operations older than the retention are deleted."""

from sqlalchemy import text

from app.kernel.db import Database
from tests.contract.scheduler.conftest import chores


def test_all_bulk_operations_older_than_the_retention_are_deleted_in_one_run(database: Database) -> None:
    """One batch per hourly run would delete fewer operations than a client can start in an hour."""
    add = text(
        "INSERT INTO bulk_operations (operation_id, status, action, parameters, wanted, rate, ended_at) "
        "VALUES (:id, :status, 'retry', '{}', '{}', 1, now() - CAST(:days AS BIGINT) * INTERVAL '1 day')"
    )
    for number, (status, days) in enumerate([("DONE", 31)] * 5 + [("STOPPED", 29), ("RUNNING", None)]):
        database.fetch(add, {"id": str(number), "status": status, "days": days})
    assert chores(database, batch=2).prune_bulk_operations()["bulk_operations"] == 5
    left = database.fetch(text("SELECT status FROM bulk_operations ORDER BY status"))
    assert [row.status for row in left] == ["RUNNING", "STOPPED"]
