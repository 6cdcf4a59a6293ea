"""Pruning of inline endpoints: only those that no job and no open dead letter names, an hour after the last change."""

from sqlalchemy import text

from app.kernel.db import Database
from tests import rows
from tests.contract.scheduler.conftest import chores


def names(database: Database, table: str, column: str) -> set[str]:
    found = database.fetch(text(f"SELECT {column} AS name FROM {table} WHERE {column} <> 'target'"))
    return {row.name for row in found}


def test_unused_inline_endpoints_are_deleted_with_their_versions(database: Database) -> None:
    for name in ("inline-new", "inline-old", "inline-job", "inline-letter", "named"):
        rows.add_endpoint(database, name)
    database.fetch(text("UPDATE endpoints SET updated_at = now() - INTERVAL '2 hours' WHERE name <> 'inline-new'"))
    rows.add_executions(database, 1, endpoint="inline-job")
    letter = rows.add_executions(database, 1, endpoint="inline-letter")[0]
    rows.add_letter(database, letter)
    database.fetch(text("DELETE FROM executions WHERE endpoint = 'inline-letter'"))
    database.fetch(text("DELETE FROM jobs WHERE endpoint = 'inline-letter'"))
    assert chores(database, batch=1).prune_inline_endpoints()["inline_endpoints"] == 1
    left = {"inline-new", "inline-job", "inline-letter", "named"}
    assert names(database, "endpoints", "name") == left
    assert names(database, "endpoint_versions", "endpoint") == left
