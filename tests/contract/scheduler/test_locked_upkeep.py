"""Promotion, repairs and next runs while another transaction locks a row: all other rows change, the log names it.

A statement that waited for the lock would end with an error.
"""

from datetime import timedelta

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.queue.executions.watermark import ScanPace
from tests import rows
from tests.contract.scheduler.conftest import chores, held, holding
from tests.contract.scheduler.upkeep_rows import ENDED, FIXED_DELAY, finished, shifted, store

PAUSED = """
    UPDATE jobs SET status = 'PAUSED', paused_at = now(), trigger_type = 'INTERVAL', interval_ms = 60000
"""
ON_HOLD = "UPDATE executions SET status = 'PENDING', on_hold = true"
INTERRUPTED = """
    INSERT INTO unfinished_changes (job_id, change_id, change, begun, running, began_at)
    SELECT job_id, job_id, :change, true, false, now() - INTERVAL '2 minutes' FROM jobs
"""


def of_execution(database: Database, table: str, execution_id: str) -> str:
    """Return the id of an execution or of its job."""
    return execution_id if table == "executions" else str(rows.job_of(database, execution_id).job_id)


def test_locked_execution_delays_no_other_promotion(
    database: Database, scheduler_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    locked, *others = rows.add_executions(database, 5, status="PENDING")
    scheduler = chores(scheduler_database, batch=2, scan_pace=ScanPace(longest_seconds=0.0))
    with held(database, "executions", locked):
        assert scheduler.promote()["promoted"] == 4
        assert scheduler.promote()["promoted"] == 0
    assert {rows.execution(database, each).status for each in others} == {"QUEUED"}
    message = f"execution {locked} is locked by another transaction; it is not queued until it is released"
    assert message in caplog.messages
    assert scheduler.promote()["promoted"] == 1


@pytest.mark.parametrize("table", ["executions", "jobs"])
def test_locked_row_delays_no_other_retry_of_a_paused_job(
    database: Database, scheduler_database: Database, table: str
) -> None:
    """Runs with each promotion, which would wait too."""
    executions = rows.add_executions(database, 3, status="RETRYING")
    database.fetch(text("UPDATE jobs SET status = 'PAUSED', paused_at = now()"))
    scheduler = chores(scheduler_database)
    with held(database, table, of_execution(database, table, executions[1])):
        assert scheduler.promote()["held"] == 2
    assert scheduler.promote()["held"] == 1


@pytest.mark.parametrize("table", ["executions", "jobs"])
def test_locked_row_delays_no_other_end_of_an_exhausted_execution(
    database: Database, scheduler_database: Database, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    executions = rows.add_executions(database, 3, max_attempts=2)
    database.fetch(text("UPDATE executions SET attempt_count = 2, run_at = now() - INTERVAL '2 minutes'"))
    scheduler = chores(scheduler_database)
    with held(database, table, of_execution(database, table, executions[1])):
        assert scheduler.repair()["failed"] == 2
        assert scheduler.repair()["failed"] == 0
    assert f"execution {executions[1]} is locked by another transaction; its repair waits" in caplog.text
    assert scheduler.repair()["failed"] == 1


def test_locked_job_delays_no_other_retirement(
    database: Database, scheduler_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    locked = rows.job_of(database, finished(database, 3)[1]).job_id
    scheduler = chores(scheduler_database)
    with held(database, "jobs", locked):
        assert scheduler.repair()["retired"] == 2
        assert scheduler.repair()["retired"] == 0
    assert f"job {locked} is locked by another transaction; its repair waits" in caplog.text
    assert scheduler.repair()["retired"] == 1


def test_locked_job_delays_no_other_restart_of_a_fixed_delay(database: Database, scheduler_database: Database) -> None:
    executions = rows.add_executions(database, 3)
    for change in (FIXED_DELAY, ENDED):
        database.fetch(text(change))
    scheduler = chores(scheduler_database)
    with held(database, "jobs", rows.job_of(database, executions[1]).job_id):
        assert scheduler.repair()["restarted"] == 2
    assert scheduler.repair()["restarted"] == 1


def test_locked_job_delays_no_other_next_run_by_new_time_zone_rules(
    database: Database, scheduler_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    store(database, "rules of last year")
    jobs = [shifted(database, timedelta(hours=1))[0] for _ in range(3)]
    scheduler = chores(scheduler_database)
    with holding(database, f"SELECT 1 FROM jobs WHERE job_id = '{jobs[1]}'"):
        assert scheduler.follow_time_zones()["moved"] == 2
        assert scheduler.follow_time_zones()["moved"] == 0
    assert f"job {jobs[1]} is locked by another transaction; its next run stays until" in caplog.text
    assert scheduler.follow_time_zones()["moved"] == 1


@pytest.mark.parametrize(("change", "state"), [("PAUSE", PAUSED), ("RESUME", ON_HOLD), ("CANCEL", ON_HOLD)])
def test_locked_execution_delays_no_interrupted_change_of_another_job(
    database: Database, scheduler_database: Database, change: str, state: str, caplog: pytest.LogCaptureFixture
) -> None:
    executions = rows.add_executions(database, 3)
    database.fetch(text(state))
    database.fetch(text(INTERRUPTED), {"change": change})
    scheduler = chores(scheduler_database)
    with held(database, "executions", executions[1]):
        assert scheduler.finish()["finished"] == 2
        assert scheduler.finish()["finished"] == 0
    locked = f"job {rows.job_of(database, executions[1]).job_id} or one of its executions"
    assert f"{locked} is locked by another transaction; its change is unfinished until" in caplog.text
    assert scheduler.finish()["finished"] == 1


@pytest.mark.parametrize(("state", "done"), [(PAUSED, "held"), (ON_HOLD, "freed")])
def test_locked_execution_delays_no_hold_or_release_of_executions_of_another_job(
    database: Database, scheduler_database: Database, state: str, done: str, caplog: pytest.LogCaptureFixture
) -> None:
    executions = rows.add_executions(database, 3)
    database.fetch(text(state))
    scheduler = chores(scheduler_database)
    with held(database, "executions", executions[1]):
        assert scheduler.repair()[done] == 2
        assert scheduler.repair()[done] == 0
    locked = f"one of the executions of job {rows.job_of(database, executions[1]).job_id}"
    assert f"{locked} is locked by another transaction; its repair waits" in caplog.text
    assert scheduler.repair()[done] == 1
