"""Ticks while another transaction locks a job: the ticks of all other jobs continue."""

import logging
from datetime import timedelta

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.queue.executions import materialization
from app.schedule.due_ticks import Advance
from tests import rows
from tests.claiming import NEVER
from tests.contract.scheduler.conftest import chores, held
from tests.cron_jobs import add_interval_job, due_jobs, job, scheduled

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def test_locked_job_delays_no_tick_of_other_jobs(database: Database, scheduler_database: Database) -> None:
    """Without a full scan, the watermark alone must stay before the locked job."""
    jobs = [add_interval_job(database, HOUR, missed=number * MINUTE) for number in range(20, 0, -1)]
    scheduler = chores(scheduler_database, cron_batch_size=6, scan_pace=NEVER)
    with held(database, "jobs", jobs[7]):
        assert scheduler.materialize()["ticks"] == 19
        assert scheduler.materialize()["ticks"] == 0
        assert scheduled(database, jobs[7]) == []
    assert scheduler.materialize()["ticks"] == 1
    assert [len(scheduled(database, job_id)) for job_id in jobs] == [1] * 20


def test_latest_tick_of_a_locked_job_runs_once_it_is_released(database: Database, scheduler_database: Database) -> None:
    job_id = add_interval_job(database, MINUTE, missed=59.5 * MINUTE, catch_up="latest")
    scheduler = chores(scheduler_database)
    with held(database, "jobs", job_id):
        assert scheduler.materialize()["ticks"] == 0
    released_at = rows.database_now(database)
    assert scheduler.materialize()["ticks"] == 1
    (tick,), row = scheduled(database, job_id), job(database, job_id)
    assert row.cron_next_run_at == tick + MINUTE > released_at
    assert row.skipped_catch_up >= 59


def test_pass_tries_a_locked_job_once(database: Database) -> None:
    """The job has more due ticks than one statement materialises, so an unlocked job would be tried again at once."""
    job_id = add_interval_job(database, timedelta(milliseconds=10), missed=timedelta(seconds=-1))
    answers = iter([False])
    with held(database, "jobs", job_id):
        chores(database, look_ahead_seconds=11, stopping=lambda: next(answers)).materialize()


def test_locked_job_takes_no_catch_up_quota_from_other_jobs(database: Database) -> None:
    locked, other = (add_interval_job(database, timedelta(seconds=1), missed=30 * MINUTE) for _ in range(2))
    scheduler = chores(database, cron_batch_size=1)
    with held(database, "jobs", locked):
        assert scheduler.materialize()["ticks"] == 500
    assert len(scheduled(database, other)) == 500


def test_statement_distinguishes_locked_jobs_from_moved_jobs(database: Database, scheduler_database: Database) -> None:
    locked, moved, free = (add_interval_job(database, HOUR, missed=MINUTE) for _ in range(3))
    advances = [Advance(due, (due.next_run_at,), due.next_run_at + HOUR) for due in due_jobs(database)]
    database.fetch(text("UPDATE jobs SET cron_next_run_at = now() WHERE job_id = :id"), {"id": moved})
    with held(database, "jobs", locked):
        done = materialization.materialize(scheduler_database, advances, shards=1)
    assert (done.locked, done.jobs, done.executions) == ({locked}, 1, 1)
    assert len(scheduled(database, free)) == 1


def test_foreign_key_that_is_being_checked_locks_no_job(database: Database) -> None:
    job_id = add_interval_job(database, HOUR, missed=MINUTE)
    with held(database, "jobs", job_id, how="FOR KEY SHARE"):
        assert chores(database).materialize()["ticks"] == 1


def test_log_names_a_job_that_stays_locked(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    job_id = add_interval_job(database, HOUR, missed=MINUTE)
    scheduler = chores(database)
    message = f"job {job_id} is locked by another transaction; its ticks wait until it is released"
    with held(database, "jobs", job_id), caplog.at_level(logging.WARNING):
        for expected in ([], [message], [message]):
            scheduler.materialize()
            assert caplog.messages == expected
