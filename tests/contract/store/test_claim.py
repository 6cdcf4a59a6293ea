"""Claims: which rows a worker gets, when, and under which lease."""

import time
from datetime import timedelta

import pytest
from sqlalchemy import TextClause, text

from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.claiming.claim import ClaimAnswer, claims_of
from app.queue.claiming.shards import CLAIMABLE_BEYOND, STORED_BEYOND
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.claiming import release, take


def claim(process: WorkerProcess, limit: int = 10, ahead_ms: int = 0) -> ClaimAnswer:
    return take(process.database, process.worker_id, limit, ahead_ms=ahead_ms)


def test_claim_takes_the_oldest_due_rows_and_spends_an_attempt(process: WorkerProcess) -> None:
    late = rows.add_executions(process.database, 1, due_in=timedelta(seconds=-5))[0]
    rows.add_executions(process.database, 3)
    claimed = claim(process, limit=2)
    assert late in {c.execution_id for c in claimed.claims}
    assert len(claimed.claims) == 2
    row = rows.execution(process.database, late)
    assert (row.status, row.attempt_count, row.worker_id) == ("RUNNING", 1, process.worker_id)


def test_future_rows_are_not_claimed(process: WorkerProcess) -> None:
    rows.add_executions(process.database, 1, due_in=timedelta(seconds=30))
    assert claim(process).claims == []


def test_rows_due_within_the_look_ahead_are_claimed_with_the_remaining_time(process: WorkerProcess) -> None:
    rows.add_executions(process.database, 1, due_in=timedelta(seconds=2))
    (only,) = claim(process, ahead_ms=5000).claims
    assert 0 < only.due_in_seconds <= 2


SLOW = """
CREATE FUNCTION sleep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.5); RETURN NEW; END $$;
CREATE TRIGGER slow BEFORE UPDATE ON executions FOR EACH ROW EXECUTE FUNCTION sleep();
"""


def test_duration_of_a_claim_delays_no_start(process: WorkerProcess) -> None:
    """The claim time is the start of the statement by the database's clock; `claimed_here` is never before it."""
    if process.database.is_cockroach:
        pytest.skip("needs a trigger that sleeps")
    rows.add_executions(process.database)
    with process.database.engine.begin() as connection:
        connection.exec_driver_sql(SLOW)
    asked_at = time.monotonic()
    (only,) = claim(process).claims
    assert asked_at <= only.claimed_here <= time.monotonic() - 0.5


def test_claim_carries_the_input_of_the_job_and_the_catalog_revision(process: WorkerProcess) -> None:
    rows.add_executions(process.database, 1, input_={"user": {"id": 7}})
    process.database.fetch(text("UPDATE catalog_revision SET revision = 41 WHERE id = 'catalog'"))
    claimed = claim(process)
    assert claimed.claims[0].input == {"user": {"id": 7}}
    assert claimed.catalog_revision == 41


ENDS_OF_A_LEASE = pytest.mark.parametrize(
    "end",
    ["lease_expires_at = now() - INTERVAL '1 second'", "status = 'DEAD'"],
    ids=["lease expired", "worker left"],
)


@ENDS_OF_A_LEASE
def test_worker_without_a_valid_lease_claims_nothing(process: WorkerProcess, end: str) -> None:
    (execution_id,) = rows.add_executions(process.database)
    process.database.fetch(text(f"UPDATE workers SET {end}"))
    assert claim(process).claims == []
    assert rows.execution(process.database, execution_id).status == "QUEUED"


@ENDS_OF_A_LEASE
def test_expired_lease_is_not_renewed(process: WorkerProcess, end: str) -> None:
    assert worker_lease.renew(process.database, worker_id=process.worker_id, in_flight=0, lease_ms=15_000)
    process.database.fetch(text(f"UPDATE workers SET {end}"))
    assert not worker_lease.renew(process.database, worker_id=process.worker_id, in_flight=0, lease_ms=15_000)


def test_release_of_a_first_attempt_restores_the_queued_row(process: WorkerProcess) -> None:
    (execution_id,) = rows.add_executions(process.database)
    (only,) = claim(process).claims
    assert release(process.database, process.worker_id, [only.key]) == 1
    row = rows.execution(process.database, execution_id)
    assert (row.status, row.attempt_count, row.started_at) == ("QUEUED", 0, None)


def test_released_later_attempt_goes_back_to_retrying(process: WorkerProcess) -> None:
    (execution_id,) = rows.add_executions(process.database, max_attempts=3)
    process.database.fetch(text("UPDATE executions SET status = 'RETRYING', attempt_count = 1"))
    (only,) = claim(process).claims
    release(process.database, process.worker_id, [only.key])
    row = rows.execution(process.database, execution_id)
    assert (row.status, row.attempt_count) == ("RETRYING", 1)


def test_release_can_defer_an_execution_but_not_bring_it_forward(process: WorkerProcess) -> None:
    due = timedelta(seconds=600)
    (now_due,), (later_due,) = rows.add_executions(process.database), rows.add_executions(process.database, due_in=due)
    planned = rows.execution(process.database, later_due).run_at
    claims = {answer.execution_id: answer.key for answer in claim(process, ahead_ms=3_600_000).claims}
    delays_ms = dict.fromkeys(claims.values(), 60_000)
    assert release(process.database, process.worker_id, list(claims.values()), defer_ms=delays_ms) == 2
    wait = rows.execution(process.database, now_due).run_at - rows.database_now(process.database)
    assert timedelta(seconds=50) < wait <= timedelta(seconds=60)
    assert rows.execution(process.database, later_due).run_at == planned
    assert claim(process).claims == []


def test_only_the_worker_of_the_claimed_attempt_can_release_it(process: WorkerProcess) -> None:
    (execution_id,) = rows.add_executions(process.database, max_attempts=3)
    (only,) = claim(process).claims
    assert release(process.database, "wrk_other", [only.key]) == 0
    assert release(process.database, process.worker_id, [only.key._replace(attempt=2)]) == 0
    assert rows.execution(process.database, execution_id).status == "RUNNING"


def test_repeated_release_does_not_release_the_next_claim(process: WorkerProcess) -> None:
    """The same worker claims the row again with the same attempt number before the repeated release arrives."""
    (execution_id,) = rows.add_executions(process.database)
    (first,) = claim(process).claims
    assert release(process.database, process.worker_id, [first.key]) == 1
    (second,) = claim(process).claims
    assert (second.attempt, second.worker_id) == (first.attempt, first.worker_id)
    assert release(process.database, process.worker_id, [first.key]) == 0
    assert rows.execution(process.database, execution_id).status == "RUNNING"
    assert claims_of(process.database, process.worker_id, "http") == {second.key}


def test_row_without_attempts_left_neither_runs_nor_blocks_the_queue(process: WorkerProcess) -> None:
    """The manually edited row must not fail the whole batch by its CHECK constraint."""
    rows.add_executions(process.database, 1, due_in=timedelta(seconds=-9))
    process.database.fetch(text("UPDATE executions SET attempt_count = 1"))
    (good,) = rows.add_executions(process.database)
    assert [c.execution_id for c in claim(process, limit=1).claims] == [good]


def test_locked_execution_delays_no_other_claim(process: WorkerProcess) -> None:
    locked, free = rows.add_executions(process.database, 2)
    with process.database.engine.begin() as other:
        other.execute(text("SELECT 1 FROM executions WHERE execution_id = :id FOR UPDATE"), {"id": locked})
        assert [each.execution_id for each in claim(process).claims] == [free]
    assert [each.execution_id for each in claim(process).claims] == [locked]


def explained(database: Database, statement: TextClause, **params: object) -> str:
    return "\n".join(row[0] for row in database.fetch(text("EXPLAIN " + statement.text), params))


@pytest.mark.postgresql_only
def test_shards_above_the_setting_are_found_by_an_index(database: Database) -> None:
    rows.add_executions(database, 30_000, shards=16)
    finish = "UPDATE executions SET status = 'SUCCESS', completed_at = now() WHERE shard % 2 = 0"
    database.fetch(text(finish))
    database.fetch(text("UPDATE executions SET status = 'PENDING' WHERE shard % 4 = 1"))
    database.fetch(text("ANALYZE executions"))
    plan = explained(database, CLAIMABLE_BEYOND, queue="http", known=4, most=256)
    plan += explained(database, STORED_BEYOND, known=4, most=256)
    for index in ("pickup", "waiting", "finished"):
        assert f"Index Only Scan Backward using idx_executions_{index}" in plan
    assert "Seq Scan" not in plan
    assert "Sort" not in plan


def test_claim_skips_rows_before_its_start(process: WorkerProcess) -> None:
    rows.add_executions(process.database, 1, due_in=timedelta(seconds=-60))
    (recent,) = rows.add_executions(process.database, 1)
    since = rows.database_now(process.database) - timedelta(seconds=30)
    claimed = take(process.database, process.worker_id, 9, since=since)
    assert [claim.execution_id for claim in claimed.claims] == [recent]
