"""Next runs of cron jobs when the time zone rules have changed since they were computed."""

from datetime import timedelta

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.queue.jobs import moved_schedules
from app.schedule import zone_rules
from tests.contract.scheduler.conftest import chores
from tests.contract.scheduler.upkeep_rows import shifted, store
from tests.cron_jobs import add_interval_job, job

HOUR = timedelta(hours=1)


def test_next_runs_move_to_the_instants_of_the_current_rules(database: Database) -> None:
    store(database, "rules of last year")
    jobs = dict(shifted(database, by) for by in (HOUR, -HOUR, timedelta(minutes=-30)))
    right, _ = shifted(database, timedelta(0))
    interval = add_interval_job(database, HOUR, missed=-2 * HOUR)
    before = {job_id: job(database, job_id).cron_next_run_at for job_id in (right, interval)}
    assert chores(database, batch=2).follow_time_zones()["moved"] == len(jobs)
    assert {job_id: job(database, job_id).cron_next_run_at for job_id in jobs} == jobs
    assert {job_id: job(database, job_id).cron_next_run_at for job_id in before} == before
    (stored,) = database.fetch(moved_schedules.STORED)
    assert stored.digest == zone_rules.digest()


def test_unchanged_rules_move_no_next_run(database: Database) -> None:
    job_id, wanted = shifted(database, HOUR)
    store(database, zone_rules.digest())
    assert chores(database).follow_time_zones()["moved"] == 0
    assert job(database, job_id).cron_next_run_at == wanted + HOUR


def test_scheduler_process_compares_the_rules_once(database: Database) -> None:
    scheduler = chores(database)
    assert scheduler.follow_time_zones()["moved"] == 0
    store(database, "rules of another scheduler")
    shifted(database, HOUR)
    assert scheduler.follow_time_zones()["moved"] == 0
    assert chores(database).follow_time_zones()["moved"] == 1


def test_stopping_scheduler_leaves_the_moves_to_the_next_scheduler(database: Database) -> None:
    store(database, "rules of last year")
    shifted(database, HOUR)
    assert chores(database, stopping=lambda: True).follow_time_zones()["moved"] == 0
    assert chores(database).follow_time_zones()["moved"] == 1


@pytest.mark.parametrize("change", ["cron_timezone = 'Mars/Olympus'", "status = 'RETIRED', retired_at = now()"])
def test_invalid_and_retired_jobs_do_not_move(database: Database, change: str) -> None:
    job_id, wanted = shifted(database, HOUR)
    later = "" if change.startswith("cron") else ", cron_next_run_at = NULL"
    database.fetch(text(f"UPDATE jobs SET {change}{later}"))
    assert chores(database).follow_time_zones()["moved"] == 0
    assert job(database, job_id).cron_next_run_at in {None, wanted + HOUR}
