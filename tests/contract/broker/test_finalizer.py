"""The finalizer while the database fails: no result is dropped, and no row delays another row."""

import logging

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.metrics.series import STALE
from tests import rows
from tests.contract.broker.faults import Faults
from tests.contract.broker.finalizing import Run
from tests.waiting import eventually

# SQLSTATEs never caused by a row, but by the server, the cluster, the disk, the network or another session.
DATABASE_FAULTS = [
    *("08P01", "0A000", "25006", "40001", "40003", "53100", "53200", "53300", "55P03", "55000", "57014", "57P01"),
    *("58030", "58C00", "58C01", "F0000", "P0001", "XX000", "XXUUU"),
]
ROW_FAULTS = ["22P05", "23505", "54000"]


@pytest.mark.parametrize("state", [*DATABASE_FAULTS, "42501", "42P01"])
def test_results_are_written_in_full_once_the_database_recovers(
    database: Database, faults: Faults, run: Run, state: str
) -> None:
    running = run(database)
    claims = running.claim(8)
    faults.set(state)
    running.end(*claims)
    eventually(lambda: faults.met() >= 6, what="several tries")
    faults.clear()
    assert running.finalizer.flush(60)
    assert running.ended(*claims)
    assert running.values.totals() == {"worker_jobs_completed_total": 8, "tasks_executed_total": 8}


@pytest.mark.parametrize("state", DATABASE_FAULTS)
def test_failing_row_delays_no_other_row_and_is_not_dropped(
    database: Database, faults: Faults, run: Run, state: str
) -> None:
    running = run(database)
    faulty, *others = running.claim(10)
    faults.set(state, faulty.execution_id)
    running.end(faulty, *others)
    running.wait_for(*others)
    later = running.claim(3)
    running.end(*later)
    running.wait_for(*later)
    # A result is pending until its thread has read the answer of the database.
    eventually(lambda: running.finalizer.pending() == {faulty.key}, what="the only result that is left")
    faults.clear()
    assert running.finalizer.flush(60)
    assert running.ended(faulty)
    assert running.values.totals() == {"worker_jobs_completed_total": 13, "tasks_executed_total": 13}


@pytest.mark.parametrize("state", ROW_FAULTS)
def test_refused_row_delays_nothing_and_is_later_written_without_output(
    database: Database, faults: Faults, run: Run, state: str, caplog: pytest.LogCaptureFixture
) -> None:
    running = run(database)
    faulty, *others = running.claim(40)
    faults.set(state, faulty.execution_id, message="as it was answered: hunter2\nDETAIL: hunter2")
    running.end(faulty, *others, output={"body": "hunter2"})
    eventually(lambda: rows.statuses(database) == {"RUNNING": 1, "SUCCESS": 39})
    assert running.finalizer.flush(60), "a refused result delays no shutdown"
    assert running.finalizer.pending() == {faulty.key}
    faults.clear()
    eventually(lambda: rows.execution(database, faulty.execution_id).status == "SUCCESS")
    assert rows.execution(database, faulty.execution_id).output is None
    assert running.values.totals()["worker_results_refused_total"] == 1
    assert f"SQLSTATE {state}" in caplog.text


def test_refused_row_is_dropped_once_its_claim_is_lost(database: Database, faults: Faults, run: Run) -> None:
    running = run(database)
    (faulty,) = running.claim(1)
    faults.set("23505", faulty.execution_id)
    running.end(faulty)
    eventually(lambda: faults.met() >= 2, what="both tries")
    faults.clear()
    database.fetch(text("UPDATE executions SET status = 'RETRYING'"))
    faults.set("23505", faulty.execution_id)
    eventually(lambda: running.values.total(STALE) == 1)
    eventually(lambda: running.finalizer.pending() == set())


def test_outage_is_one_line_in_the_log(
    database: Database, faults: Faults, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    running = run(database)
    faults.set("25006")
    with caplog.at_level(logging.WARNING):
        running.end(*running.claim(20))
        eventually(lambda: faults.met() >= 4)
    outages = [record for record in caplog.records if "keeping them" in record.message]
    assert len(outages) == 1
    assert "SQLSTATE 25006" in caplog.text
