"""Executions that wait behind a rule for longer than `max_age_ms` fail without an attempt; younger executions wait."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from app.features.expiry import store
from app.kernel.db import Database
from app.queue.claiming.partition import Partition
from app.queue.executions.manual_retry import retry_execution
from tests import rows
from tests.claiming import add_to
from tests.contract.features.expiry.expiring import RULES
from tests.contract.scheduler.conftest import chores, held

PARTITIONS = [Partition(0, "aged", f"={name}", priority) for name in "ab" for priority in (10, 200)]


def pages_read(database: Database) -> list[str]:
    """Return a list that collects each page read of executions from now on."""
    page_reads: list[str] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "AS waits" in statement:
            page_reads.append(statement)

    return page_reads


@pytest.mark.parametrize("rule", RULES)
def test_execution_that_waited_too_long_behind_a_rule_fails(aged: Database, rule: str) -> None:
    aged.fetch(text(RULES[rule]), {"name": "aged"})
    late = [execution for partition in PARTITIONS for execution in add_to(aged, partition, 2, due_in=-90)]
    young = [execution for partition in PARTITIONS for execution in add_to(aged, partition, due_in=-30)]
    others = add_to(aged, Partition(0, "target", "", 128), due_in=-90)
    assert chores(aged).expire()["expired"] == len(late)
    assert {rows.execution(aged, each).status for each in late} == {"FAILED"}
    assert {rows.execution(aged, each).status for each in young + others} == {"QUEUED"}
    events = aged.fetch(text("SELECT execution_id, from_status, to_status, reason, actor FROM execution_events"))
    assert {tuple(row) for row in events} == {(each, "QUEUED", "FAILED", "EXPIRED", None) for each in late}
    assert rows.job_of(aged, late[0]).status == "RETIRED"
    assert rows.attempts(aged, late[0]) == []
    assert chores(aged).expire()["expired"] == 0


def test_without_a_rule_no_first_attempt_is_too_old(aged: Database) -> None:
    """A backlog is no rule that makes executions wait."""
    (late,) = add_to(aged, PARTITIONS[0], due_in=-90)
    expire, page_reads = chores(aged).expire, pages_read(aged)
    assert expire() == {}
    assert page_reads == [], "no page is read if no rule makes executions wait"
    aged.fetch(text("INSERT INTO paused_queues (queue, paused_by) VALUES ('another', 'test') RETURNING 1"))
    assert expire() == {"expired": 0}, "another queue is paused"
    with held(aged, "executions", late):
        aged.fetch(text("UPDATE paused_queues SET queue = 'http' RETURNING 1"))
        assert expire() == {"expired": 0}, "the execution is locked, as by a claim"
    aged.fetch(text("DELETE FROM paused_queues RETURNING 1"))
    assert expire() == {}, "the queue was resumed"
    assert rows.execution(aged, late).status == "QUEUED"


def test_manual_retry_waits_at_any_age(aged: Database) -> None:
    aged.fetch(text(RULES["a pause"]), {"name": "aged"})
    (execution,) = add_to(aged, PARTITIONS[0], due_in=-90)
    expire = chores(aged).expire
    assert expire()["expired"] == 1
    retry_execution(aged, execution, actor=None)
    aged.fetch(text("UPDATE executions SET run_at = now() - INTERVAL '1 hour'"))
    assert expire()["expired"] == 0
    assert rows.execution(aged, execution).status == "QUEUED"


def test_pages_of_executions_without_a_rule_delay_no_expiry(aged: Database) -> None:
    """An older backlog of an endpoint that is not paused fills whole pages before the late executions."""
    rows.add_endpoint(aged, "free", retry_policy={"max_age_ms": 60_000})
    aged.fetch(text(RULES["a pause"]), {"name": "aged"})
    add_to(aged, PARTITIONS[0]._replace(endpoint="free"), 7, due_in=-95)
    late = add_to(aged, PARTITIONS[0], 2, due_in=-90)
    page_reads = pages_read(aged)
    assert chores(aged, batch=3, queue_shards=1).expire() == {"expired": 2}
    assert len(page_reads) == 4, "the fourth page is empty"
    assert {rows.execution(aged, each).status for each in late} == {"FAILED"}
    assert rows.statuses(aged) == {"FAILED": 2, "QUEUED": 7}


def test_scheduler_that_stops_reads_no_further_page(aged: Database) -> None:
    aged.fetch(text(RULES["a pause"]), {"name": "aged"})
    add_to(aged, PARTITIONS[0], 5, due_in=-90)
    page_reads = pages_read(aged)
    stopped = chores(aged, batch=1, stopping=lambda: len(page_reads) >= 2)
    assert stopped.expire() == {"expired": 2}


def job_key(database: Database, execution_id: str) -> str:
    return str(rows.job_of(database, execution_id).job_id)


def execution_key(_database: Database, execution_id: str) -> str:
    return execution_id


@pytest.mark.parametrize(("table", "key_of"), [("executions", execution_key), ("jobs", job_key)])
def test_locked_row_delays_no_other_expiry(
    aged: Database, table: str, key_of: Callable[[Database, str], str], caplog: pytest.LogCaptureFixture
) -> None:
    aged.fetch(text(RULES["a pause"]), {"name": "aged"})
    locked, *others = add_to(aged, PARTITIONS[0], 3, due_in=-90)
    expire = chores(aged).expire
    with held(aged, table, key_of(aged, locked)):
        assert expire()["expired"] == 2
        assert expire()["expired"] == 0
    assert f"execution {locked} or its job is locked by another transaction; it does not expire until" in caplog.text
    assert {rows.execution(aged, each).status for each in others} == {"FAILED"}
    assert rows.execution(aged, locked).status == "QUEUED"
    assert expire()["expired"] == 1
    assert rows.execution(aged, locked).status == "FAILED"


@pytest.mark.postgresql_only
@pytest.mark.parametrize("is_analysed", [False, True], ids=["old statistics", "new statistics"])
def test_late_executions_are_read_by_their_own_index(aged: Database, is_analysed: bool) -> None:
    aged.fetch(text("ALTER TABLE executions SET (autovacuum_enabled = false)"))
    rows.add_executions(aged, 5_000, due_in=timedelta(minutes=-2))
    rows.add_executions(aged, 1_000, endpoint="aged", due_in=timedelta(minutes=-2))
    if is_analysed:
        aged.fetch(text("ANALYZE executions"))
    given = {"shard": 0, "limit": 500, "at": store.START.at, "key": "", "endpoints": ["aged"], "queues": []}
    plan = "\n".join(row[0] for row in aged.fetch(text("EXPLAIN " + store.LATE.text), given))
    assert "Index Scan using idx_executions_expiry" in plan, plan
    assert "Sort" not in plan, plan
