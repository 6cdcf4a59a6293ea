"""Queues with waiting executions: each queue is found by one index entry."""

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.queue.claiming.claimable_queues import (
    CLAIMABLE_OF,
    NEXT_QUEUE,
    claimable_of,
    claimable_queues,
    named_queues,
)
from tests import rows


def fill(database: Database, queue: str, count: int, status: str) -> None:
    added = rows.add_executions(database, count)
    move = text("UPDATE executions SET queue = :queue, status = :status WHERE execution_id = ANY (:ids)")
    database.fetch(move, {"ids": added, "queue": queue, "status": status})


def test_queue_is_found_while_it_has_claimable_executions(database: Database) -> None:
    for queue, status in (("a", "QUEUED"), ("b", "PENDING"), ("c", "RETRYING"), ("http", "QUEUED")):
        fill(database, queue, 2, status)
    assert claimable_queues(database, 10) == ["a", "c", "http"]
    assert claimable_queues(database, 2) == ["a", "c"]


@pytest.mark.postgresql_only
def test_scan_reads_one_index_entry_per_queue(database: Database) -> None:
    for queue in ("bulk", "http"):
        fill(database, queue, 10_000, "QUEUED")
    database.fetch(text("ANALYZE executions"))
    params = {"after": "a"} | {f"queue_{number}": "http" for number in range(16)}
    for statement in (NEXT_QUEUE, CLAIMABLE_OF):
        plan = "\n".join(row[0] for row in database.fetch(text("EXPLAIN " + statement.text), params))
        assert "Index Only Scan using idx_executions_lanes" in plan
        assert "Sort" not in plan
        assert "Seq Scan" not in plan


def test_named_queues_with_claimable_executions_are_found(
    database: Database,
) -> None:
    database.fetch(text("UPDATE endpoints SET queue = 'own', routed_queue = 'not-in-effect' WHERE name = 'target'"))
    gone = text("UPDATE endpoints SET queue = 'gone', deleted_at = now() WHERE name = :name")
    database.fetch(gone, {"name": rows.add_endpoint(database, "old")})
    routes = (
        "INSERT INTO routes (position, pattern, queue, source) VALUES (0, 'a', 'q17', 'api'), (1, 'b', 'q3', 'api')"
    )
    database.fetch(text(routes))
    assert named_queues(database) == {"own", "q17", "q3"}

    for queue, status in (("q17", "QUEUED"), ("q3", "RETRYING"), ("q4", "PENDING"), ("other", "QUEUED")):
        fill(database, queue, 2, status)
    many = [f"q{number}" for number in range(40)]
    assert claimable_of(database, many, 10) == ["q17", "q3"]
    assert claimable_of(database, many, 1) == ["q17"]
    assert claimable_of(database, [], 10) == []
