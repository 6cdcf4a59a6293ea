"""The finalizer while another session locks a row: other rows are written, and lost claims do not wait."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import text

from app.kernel import db
from app.kernel.db import Database
from app.queue.claiming.release import Release
from tests import rows
from tests.contract.broker.finalizing import Run, locked
from tests.waiting import eventually


@pytest.fixture
def impatient(database_url: str) -> Iterator[Database]:
    """The same database, on connections that wait one second for a lock."""
    impatient = db.connect(database_url, pool_size=2, application_name="te-own", statement_timeout_seconds=2)
    with closing(impatient):
        yield impatient


def test_locked_row_delays_no_other_row(database: Database, impatient: Database, run: Run) -> None:
    running = run(impatient)
    locked_claim, *others = running.claim(60)
    with locked(database, locked_claim):
        running.end(locked_claim, *others)
        running.wait_for(*others)
        for _ in range(3):
            later = running.claim(5)
            running.end(*later)
            running.wait_for(*later)
        eventually(lambda: running.finalizer.pending() == {locked_claim.key}, what="the answers to all other writes")
    assert running.finalizer.flush(60)
    assert running.ended(locked_claim)
    assert running.values.totals() == {"worker_jobs_completed_total": 75, "tasks_executed_total": 75}


def test_result_of_a_lost_claim_is_dropped_without_waiting_for_a_lock(
    database: Database, impatient: Database, run: Run
) -> None:
    running = run(impatient)
    lost, *others = running.claim(10)
    taken = text("UPDATE executions SET worker_id = 'wrk_2' WHERE execution_id = :id")
    database.fetch(taken, {"id": lost.execution_id})
    with locked(database, lost):
        running.end(lost, *others)
        assert running.finalizer.flush(60)
    assert running.ended(*others)
    assert running.values.totals() == {
        "worker_jobs_completed_total": 9,
        "tasks_executed_total": 9,
        "worker_stale_results_total": 1,
    }


def test_locked_release_delays_no_other_release_and_no_result(
    database: Database, impatient: Database, run: Run
) -> None:
    running = run(impatient)
    locked_claim, released, ended = running.claim(3)
    with locked(database, locked_claim):
        running.finalizer.submit(Release(locked_claim.key))
        running.finalizer.submit(Release(released.key))
        running.end(ended)
        running.wait_for(ended)
        eventually(lambda: rows.execution(database, released.execution_id).status == "QUEUED")
        eventually(lambda: running.finalizer.pending() == {locked_claim.key}, what="the answers to all other writes")
    assert running.finalizer.flush(60)
    assert rows.execution(database, locked_claim.execution_id).attempt_count == 0
