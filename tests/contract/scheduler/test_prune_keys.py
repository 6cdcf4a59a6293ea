"""Pruning idempotency keys and sessions of the console: deletes old ones, in batches, and nothing else."""

from sqlalchemy import text

from app.kernel import idempotency
from app.kernel.access.console_sessions import ConsoleSessions
from app.kernel.db import Database
from app.kernel.idempotency import KeyedRequest
from tests.contract.scheduler.conftest import chores


def add(database: Database, key: str, *, hours_ago: int) -> None:
    idempotency.take(database, KeyedRequest("client", key, "fingerprint", "req"))
    age = "UPDATE idempotency_keys SET created_at = now() - :hours * INTERVAL '1 hour' WHERE idempotency_key = :key"
    database.fetch(text(age), {"hours": hours_ago, "key": key})


def test_only_keys_older_than_a_day_are_deleted(database: Database) -> None:
    for number in range(5):
        add(database, f"old-{number}", hours_ago=25)
    add(database, "young", hours_ago=23)
    assert chores(database, batch=2).prune_keys()["idempotency_keys"] == 5
    assert [row[0] for row in database.fetch(text("SELECT idempotency_key FROM idempotency_keys"))] == ["young"]
    assert chores(database, batch=2).prune_keys()["idempotency_keys"] == 0


def test_only_sessions_that_have_ended_are_deleted(database: Database) -> None:
    sessions = ConsoleSessions(database, seconds=60, idle_seconds=60)
    for key_id in ("old-1", "old-2", "old-3", "young"):
        sessions.begin(key_id)
    database.fetch(text("UPDATE console_sessions SET expires_at = now() WHERE key_id <> 'young'"))
    assert chores(database, batch=2).prune_keys()["sessions"] == 3
    assert [row[0] for row in database.fetch(text("SELECT key_id FROM console_sessions"))] == ["young"]
