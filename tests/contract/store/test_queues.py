"""Queues in which executions wait, found by one entry of an index each."""

import pytest
from sqlalchemy import text

from app.db import Database
from app.executions.claiming.queues import NEXT_QUEUE, claimable_queues
from tests import rows


def fill(database: Database, queue: str, count: int, status: str) -> None:
    added = rows.add_executions(database, count)
    move = text("UPDATE executions SET queue = :queue, status = :status WHERE execution_id = ANY (:ids)")
    database.fetch(move, {"ids": added, "queue": queue, "status": status})


def test_a_queue_is_found_while_something_of_it_may_be_claimed(database: Database) -> None:
    for queue, status in (("a", "QUEUED"), ("b", "PENDING"), ("c", "RETRYING"), ("http", "QUEUED")):
        fill(database, queue, 2, status)
    assert claimable_queues(database, 10) == ["a", "c", "http"]
    assert claimable_queues(database, 2) == ["a", "c"]


@pytest.mark.postgresql_only
def test_a_hop_over_a_queue_reads_one_entry(database: Database) -> None:
    for queue in ("bulk", "http"):
        fill(database, queue, 10_000, "QUEUED")
    database.fetch(text("ANALYZE executions"))
    plan = "\n".join(row[0] for row in database.fetch(text("EXPLAIN " + NEXT_QUEUE.text), {"after": "a"}))
    assert "Index Only Scan using idx_executions_lanes" in plan
    assert "Sort" not in plan
