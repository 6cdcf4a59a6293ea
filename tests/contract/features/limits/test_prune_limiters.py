"""Pruning of limiters: rows idle for two days are deleted, with their windows."""

from datetime import timedelta

from sqlalchemy import text

from app.kernel.db import Database
from tests.contract.scheduler.conftest import chores


def test_limiter_rows_idle_for_two_days_are_deleted(database: Database) -> None:
    used = text("INSERT INTO gates (gate_id, used_at) VALUES (:id, now() - :age)")
    for number in range(10):
        age = timedelta(days=1 if number in (2, 7) else 3)
        database.fetch(used, {"id": f"limiter={number}", "age": age})
        window = "INSERT INTO gate_windows (gate_id, slot, bucket, started) VALUES (:id, 1, 1, 1)"
        database.fetch(text(window), {"id": f"limiter={number}"})
    assert chores(database, batch=3).prune_limiters()["limiters"] == 8
    for table in ("gates", "gate_windows"):
        left = database.fetch(text(f"SELECT gate_id FROM {table} ORDER BY gate_id"))
        assert [row.gate_id for row in left] == ["limiter=2", "limiter=7"]
