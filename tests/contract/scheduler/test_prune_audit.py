"""Pruning the audit log: deletes entries older than the retention, in batches, and nothing else."""

from sqlalchemy import text

from app.kernel.audit import SYSTEM, AuditAction, ResourceType
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from tests.contract.scheduler.conftest import chores


def add(database: Database, name: str, *, days_ago: int) -> None:
    change = AuditedChange(SYSTEM)
    database.transact(lambda connection: change.record(connection, AuditAction.CREATE, ResourceType.CONFIG, name))
    age = "UPDATE audit_log SET occurred_at = now() - :days * INTERVAL '1 day' WHERE resource = :name"
    database.fetch(text(age), {"days": days_ago, "name": name})


def test_only_entries_older_than_the_retention_are_deleted(database: Database) -> None:
    for number in range(5):
        add(database, f"old-{number}", days_ago=366)
    add(database, "young", days_ago=364)
    assert chores(database, batch=2).prune_audit()["entries"] == 5
    assert [row.resource for row in database.fetch(text("SELECT resource FROM audit_log"))] == ["young"]
    assert chores(database, batch=2).prune_audit()["entries"] == 0
