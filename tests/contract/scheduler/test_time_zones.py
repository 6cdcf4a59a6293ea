"""Next runs of cron jobs when the time zone rules have changed since they were computed."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.queue.jobs import time_zones
from app.schedule import zone_rules
from tests import rows
from tests.contract.scheduler.conftest import chores
from tests.cron_jobs import add_cron_job, add_interval_job, job

HOUR = timedelta(hours=1)
ZONE = "Asia/Kolkata"


def yearly(database: Database) -> str:
    """Return a yearly cron expression with its next tick in half a year."""
    at = rows.database_now(database) + timedelta(days=180)
    return f"{at.minute} {at.hour} {min(at.day, 28)} {at.month} *"


def shifted(database: Database, by: timedelta) -> tuple[str, datetime]:
    """Make a job with a shifted next run; return the job and its next run by the current time zone rules."""
    job_id = add_cron_job(database, yearly(database), timezone=ZONE)
    wanted = job(database, job_id).cron_next_run_at
    database.fetch(
        text("UPDATE jobs SET cron_next_run_at = :at WHERE job_id = :job"), {"at": wanted + by, "job": job_id}
    )
    return job_id, wanted


def store(database: Database, digest: str) -> None:
    database.fetch(time_zones.STORE, {"digest": digest})


def test_next_runs_move_to_the_instants_of_the_current_rules(database: Database) -> None:
    store(database, "rules of last year")
    jobs = dict(shifted(database, by) for by in (HOUR, -HOUR, timedelta(minutes=-30)))
    right, _ = shifted(database, timedelta(0))
    interval = add_interval_job(database, HOUR, missed=-2 * HOUR)
    before = {job_id: job(database, job_id).cron_next_run_at for job_id in (right, interval)}
    assert chores(database, batch=2).follow_time_zones()["moved"] == len(jobs)
    assert {job_id: job(database, job_id).cron_next_run_at for job_id in jobs} == jobs
    assert {job_id: job(database, job_id).cron_next_run_at for job_id in before} == before
    (stored,) = database.fetch(time_zones.STORED)
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
