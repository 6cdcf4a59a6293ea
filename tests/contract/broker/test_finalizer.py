"""The finalizer while the database fails: nothing finished is dropped, and no row holds up the others."""

import logging

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.metrics.series import STALE
from tests import rows
from tests.contract.broker.faults import Faults
from tests.contract.broker.finalizing import Run
from tests.waiting import eventually

# None of these says anything about a row: it is the server, the cluster, the disk, the way there, or another session.
DATABASES_FAULTS = [
    *("08P01", "0A000", "25006", "40001", "40003", "53100", "53200", "53300", "55P03", "55000", "57014", "57P01"),
    *("58030", "58C00", "58C01", "F0000", "P0001", "XX000", "XXUUU"),
]
ROWS_FAULTS = ["22P05", "23505", "54000"]


@pytest.mark.parametrize("state", [*DATABASES_FAULTS, "42501", "42P01"])
def test_what_the_database_cannot_write_now_is_written_later_in_full(
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


@pytest.mark.parametrize("state", DATABASES_FAULTS)
def test_a_row_that_cannot_be_written_holds_up_no_other_and_is_not_dropped(
    database: Database, faults: Faults, run: Run, state: str
) -> None:
    running = run(database)
    odd, *others = running.claim(10)
    faults.set(state, odd.execution_id)
    running.end(odd, *others)
    running.wait_for(*others)
    later = running.claim(3)
    running.end(*later)
    running.wait_for(*later)
    assert running.finalizer.pending() == {odd.key}
    faults.clear()
    assert running.finalizer.flush(60)
    assert running.ended(odd)
    assert running.values.totals() == {"worker_jobs_completed_total": 13, "tasks_executed_total": 13}


@pytest.mark.parametrize("state", ROWS_FAULTS)
def test_a_row_that_is_refused_holds_up_nothing_and_ends_bare_once_it_can(
    database: Database, faults: Faults, run: Run, state: str, caplog: pytest.LogCaptureFixture
) -> None:
    running = run(database)
    odd, *others = running.claim(40)
    faults.set(state, odd.execution_id, message="as it was answered: hunter2\nDETAIL: hunter2")
    running.end(odd, *others, output={"body": "hunter2"})
    eventually(lambda: rows.statuses(database) == {"RUNNING": 1, "SUCCESS": 39})
    assert running.finalizer.flush(60), "what is refused for good delays no shutdown"
    assert running.finalizer.pending() == {odd.key}
    faults.clear()
    eventually(lambda: rows.execution(database, odd.execution_id).status == "SUCCESS")
    assert rows.execution(database, odd.execution_id).output is None
    assert running.values.totals()["worker_results_refused_total"] == 1
    assert f"SQLSTATE {state}" in caplog.text


def test_a_refused_row_is_dropped_once_its_claim_is_lost(database: Database, faults: Faults, run: Run) -> None:
    running = run(database)
    (odd,) = running.claim(1)
    faults.set("23505", odd.execution_id)
    running.end(odd)
    eventually(lambda: faults.met() >= 2, what="both tries")
    faults.clear()
    database.fetch(text("UPDATE executions SET status = 'RETRYING'"))
    faults.set("23505", odd.execution_id)
    eventually(lambda: running.values.total(STALE) == 1)
    assert running.finalizer.pending() == set()


def test_an_outage_is_one_line_in_the_log(
    database: Database, faults: Faults, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    running = run(database)
    faults.set("25006")
    with caplog.at_level(logging.WARNING):
        running.end(*running.claim(20))
        eventually(lambda: faults.met() >= 4)
    kept = [record for record in caplog.records if "keeping them" in record.message]
    assert len(kept) == 1
    assert "SQLSTATE 25006" in caplog.text
