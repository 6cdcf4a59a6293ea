"""The finalizer while somebody holds the lock on a row: the others are written, and what is lost is not waited for."""

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
    """The same database, on connections that wait a second for a lock."""
    own = db.connect(database_url, pool_size=2, application_name="te-own", statement_timeout_seconds=2)
    with closing(own):
        yield own


def test_a_locked_row_holds_up_no_other(database: Database, impatient: Database, run: Run) -> None:
    running = run(impatient)
    kept, *others = running.claim(60)
    with locked(database, kept):
        running.end(kept, *others)
        running.wait_for(*others)
        for _ in range(3):
            later = running.claim(5)
            running.end(*later)
            running.wait_for(*later)
        assert running.finalizer.pending() == {kept.key}
    assert running.finalizer.flush(60)
    assert running.ended(kept)
    assert running.values.totals() == {"worker_jobs_completed_total": 75, "tasks_executed_total": 75}


def test_a_result_whose_claim_is_lost_is_dropped_without_waiting_for_a_lock(
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


def test_a_locked_hand_back_holds_up_no_other_and_no_result(database: Database, impatient: Database, run: Run) -> None:
    running = run(impatient)
    kept, given, ended = running.claim(3)
    with locked(database, kept):
        running.finalizer.submit(Release(kept.key))
        running.finalizer.submit(Release(given.key))
        running.end(ended)
        running.wait_for(ended)
        eventually(lambda: rows.execution(database, given.execution_id).status == "QUEUED")
        assert running.finalizer.pending() == {kept.key}
    assert running.finalizer.flush(60)
    assert rows.execution(database, kept.execution_id).attempt_count == 0
