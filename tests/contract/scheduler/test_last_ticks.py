"""The end time of a repeating job: no tick at or after it fires, and the last tick retires the job."""

from datetime import timedelta

from sqlalchemy import text

from app.kernel.db import Database
from app.queue.executions import materialization
from app.schedule.due_ticks import Advance
from tests import rows
from tests.contract.scheduler.conftest import chores
from tests.cron_jobs import add_cron_job, daily, due_jobs, job, scheduled


def test_ticks_at_or_after_the_end_do_not_fire_and_the_job_retires(database: Database) -> None:
    now = rows.database_now(database).replace(second=0, microsecond=0)
    ends_at = now - timedelta(minutes=2)
    job_id = add_cron_job(database, missed=timedelta(minutes=5), ends_at=ends_at)
    counts = chores(database).materialize()
    found = scheduled(database, job_id)
    assert found[-1] == ends_at - timedelta(minutes=1)
    assert (counts["ticks"], counts["retired"]) == (len(found), 1)
    row = job(database, job_id)
    assert (row.status, row.cron_next_run_at, row.cron_last_tick_at) == ("RETIRED", None, found[-1])
    assert row.retired_at is not None
    assert (row.ended_at, row.end_reason) == (row.retired_at, "NO_TICK_LEFT")


def test_job_whose_next_tick_is_not_before_its_end_retires_without_firing(database: Database) -> None:
    job_id = add_cron_job(database, missed=timedelta(minutes=5))
    database.fetch(text("UPDATE jobs SET cron_ends_at = cron_next_run_at, cron_last_tick_at = created_at"))
    assert chores(database).materialize()["retired"] == 1
    row = job(database, job_id)
    assert (row.status, row.cron_last_tick_at, scheduled(database, job_id)) == ("RETIRED", row.created_at, [])


def test_last_tick_of_the_calendar_retires_the_job(database: Database) -> None:
    """The tick has no successor because the calendar ends."""
    job_id = add_cron_job(database, daily(database), missed=timedelta(days=1))
    (found,) = due_jobs(database)
    materialization.materialize(database, [Advance(found, (found.next_run_at,), None)], shards=1)
    assert (job(database, job_id).status, len(scheduled(database, job_id))) == ("RETIRED", 1)
