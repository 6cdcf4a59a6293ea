"""Repair of stalled jobs: fixed delays without a next run, and executions still on hold after the pause."""

import logging
from datetime import timedelta

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from tests import rows
from tests.contract.races.racing import Hints
from tests.contract.scheduler.conftest import chores
from tests.contract.scheduler.upkeep_rows import ENDED, FIXED_DELAY
from tests.cron_jobs import job

MINUTE = timedelta(minutes=1)


def stalled(database: Database) -> str:
    """Make a fixed-delay job without a next run, although its latest tick has ended."""
    (execution_id,) = rows.add_executions(database)
    for change in (FIXED_DELAY, ENDED):
        database.fetch(text(change))
    found: str = rows.job_of(database, execution_id).job_id
    return found


def test_stalled_fixed_delay_runs_one_interval_after_its_last_completion(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = stalled(database)
    (ended,) = database.fetch(text("SELECT completed_at FROM executions"))
    with caplog.at_level(logging.WARNING):
        assert chores(database).repair()["restarted"] == 1
    assert job(database, job_id).cron_next_run_at == ended.completed_at + MINUTE
    assert "repaired: 1 fixed-delay job has no next run" in caplog.text
    assert chores(database).repair()["restarted"] == 0


@pytest.mark.parametrize("change", [None, "DELETE FROM executions"], ids=["it ended long ago", "it was pruned"])
def test_stalled_fixed_delay_whose_next_run_would_be_in_the_past_is_due_now(
    database: Database, change: str | None
) -> None:
    job_id = stalled(database)
    database.fetch(text(change or "UPDATE executions SET completed_at = now() - INTERVAL '1 day'"))
    before = rows.database_now(database)
    assert chores(database).repair()["restarted"] == 1
    assert before <= job(database, job_id).cron_next_run_at <= rows.database_now(database)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE executions SET status = 'QUEUED', completed_at = NULL",
        "UPDATE jobs SET status = 'PAUSED', paused_at = now()",
        "UPDATE jobs SET status = 'RETIRED', retired_at = now()",
        "UPDATE jobs SET cron_next_run_at = now() + INTERVAL '1 hour'",
        "UPDATE jobs SET fixed_delay = false",
    ],
    ids=["its execution is unfinished", "paused", "retired", "it has a next run", "fixed rate"],
)
def test_repair_changes_no_other_job(database: Database, change: str) -> None:
    job_id = stalled(database)
    database.fetch(text(change))
    before = job(database, job_id)
    assert chores(database).repair()["restarted"] == 0
    assert job(database, job_id) == before


def test_executions_on_hold_without_a_pause_are_released(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    held = rows.add_executions(database, 3, status="PENDING")
    database.fetch(text("UPDATE executions SET on_hold = true"))
    paused = rows.job_of(database, held[0]).job_id
    database.fetch(text("UPDATE jobs SET status = 'PAUSED', paused_at = now() WHERE job_id = :job"), {"job": paused})
    hints = Hints()
    with caplog.at_level(logging.WARNING):
        assert chores(database, hints=hints).repair()["freed"] == 2
    assert rows.statuses(database) == {"PENDING": 1, "QUEUED": 2}
    assert rows.execution(database, held[0]).on_hold
    assert "repaired: 2 jobs have executions on hold without a pause" in caplog.text
    assert set(hints.queues) == {"http"}
    events = database.fetch(text("SELECT reason, actor FROM execution_events"))
    assert {(row.reason, row.actor) for row in events} == {("JOB_RESUMED", None)}
    assert chores(database).repair()["freed"] == 0


def test_begun_execution_of_a_retired_job_is_released_from_hold(database: Database) -> None:
    """An interrupted cancellation of many executions leaves them on hold; its repetition cancels the unstarted rows."""
    begun, not_begun = rows.add_executions(database, 2, status="PENDING")
    for change in (
        "UPDATE jobs SET trigger_type = 'INTERVAL', interval_ms = 60000, status = 'RETIRED', retired_at = now()",
        "UPDATE executions SET on_hold = true",
    ):
        database.fetch(text(change))
    database.fetch(
        text("UPDATE executions SET attempt_count = 1, max_attempts = 2 WHERE execution_id = :id"), {"id": begun}
    )
    assert chores(database).repair()["freed"] == 1
    assert (rows.execution(database, begun).on_hold, rows.execution(database, not_begun).on_hold) == (False, True)
    assert chores(database).repair()["freed"] == 0


def test_repair_holds_a_queued_tick_of_a_paused_job(database: Database) -> None:
    """A run requested during the pause is not held."""
    tick, manual = rows.add_executions(database, 2)
    for change in (
        "UPDATE jobs SET trigger_type = 'INTERVAL', interval_ms = 60000, status = 'PAUSED', paused_at = now()",
        "UPDATE executions SET created_at = now() + INTERVAL '1 second'",
    ):
        database.fetch(text(change))
    database.fetch(text("UPDATE executions SET idempotency_key = 'run_now' WHERE execution_id = :id"), {"id": manual})
    assert chores(database).repair()["held"] == 1
    assert (rows.execution(database, tick).on_hold, rows.execution(database, manual).on_hold) == (True, False)
    assert chores(database).repair()["held"] == 0
