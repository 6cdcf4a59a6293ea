"""Pruning of inline endpoints that nothing names, an hour after the last change."""

from sqlalchemy import text

from app.catalog.endpoints.inline_pruning import PRUNE
from app.kernel.db import Database
from schema.inline_bounds import INLINE_PREFIX
from tests import rows
from tests.contract.scheduler.conftest import chores

NEW, OLD, JOB, LETTER, CALLED, CHANNEL, OLDER = (INLINE_PREFIX + digit * 32 for digit in "0123456")


def names(database: Database, table: str, column: str) -> set[str]:
    found = database.fetch(text(f"SELECT {column} AS name FROM {table} WHERE {column} <> 'target'"))
    return {row.name for row in found}


def test_unused_inline_endpoints_are_deleted_with_their_versions(database: Database) -> None:
    left = {NEW, JOB, LETTER, "named", "inline-billing"}  # the last one is older than the reserved prefix
    for name in (OLD, OLDER, *left):
        rows.add_endpoint(database, name)
    age = text("UPDATE endpoints SET updated_at = now() - INTERVAL '2 hours' WHERE name <> :new")
    database.fetch(age, {"new": NEW})
    rows.add_executions(database, 1, endpoint=JOB)
    letter = rows.add_executions(database, 1, endpoint=LETTER)[0]
    rows.add_letter(database, letter)
    database.fetch(text("DELETE FROM executions WHERE endpoint = :letter"), {"letter": LETTER})
    database.fetch(text("DELETE FROM jobs WHERE endpoint = :letter"), {"letter": LETTER})
    assert chores(database, batch=1).prune_inline_endpoints()["inline_endpoints"] == 2
    assert names(database, "endpoints", "name") == left
    assert names(database, "endpoint_versions", "endpoint") == left


def test_a_batch_starts_behind_the_rows_of_the_batch_before(database: Database) -> None:
    for name in (OLD, OLDER):
        rows.add_endpoint(database, name)
    database.fetch(text("UPDATE endpoints SET updated_at = now() - INTERVAL '2 hours'"))
    (first,) = database.fetch(PRUNE, {"limit": 1, "since": ""})
    assert (first.deleted, first.reached) == (1, OLD)
    rows.add_endpoint(database, OLD)
    database.fetch(text("UPDATE endpoints SET updated_at = now() - INTERVAL '2 hours'"))
    (second,) = database.fetch(PRUNE, {"limit": 1, "since": first.reached})
    assert (second.deleted, second.reached) == (1, OLDER)
    assert names(database, "endpoints", "name") == {OLD}


def test_targets_of_callbacks_and_notifications_stay(database: Database) -> None:
    for name in (OLD, CALLED, CHANNEL, "caller"):
        rows.add_endpoint(database, name)
    database.fetch(text("UPDATE endpoints SET updated_at = now() - INTERVAL '2 hours'"))
    calls = text("UPDATE endpoints SET callbacks = jsonb_build_object('on_success', :called) WHERE name = 'caller'")
    database.fetch(calls, {"called": CALLED})
    rule = "INSERT INTO notification_rules (name, rule_json) VALUES ('r', jsonb_build_object('channels', :channels))"
    database.fetch(text(rule), {"channels": [CHANNEL]})
    chores(database).prune_inline_endpoints()
    assert names(database, "endpoints", "name") == {CALLED, CHANNEL, "caller"}
