"""Rows that the chores of upkeep change."""

from datetime import datetime, timedelta

from sqlalchemy import text

from app.kernel.db import Database
from app.queue.jobs import moved_schedules
from tests import rows
from tests.cron_jobs import add_cron_job, job

FIXED_DELAY = """
    UPDATE jobs SET trigger_type = 'INTERVAL', fixed_delay = true, interval_ms = 60000,
                    cron_last_tick_at = (SELECT scheduled_at FROM executions AS e WHERE e.job_id = jobs.job_id)"""
ENDED = "UPDATE executions SET status = 'SUCCESS', completed_at = now() + INTERVAL '1 hour'"
ZONE = "Asia/Kolkata"


def finished(database: Database, count: int = 1) -> list[str]:
    """Create finished executions of jobs that are still active."""
    executions = rows.add_executions(database, count)
    database.fetch(text("UPDATE executions SET status = 'SUCCESS', completed_at = now() WHERE status = 'QUEUED'"))
    database.fetch(text("UPDATE jobs SET created_at = now() - INTERVAL '2 minutes'"))
    return executions


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
    database.fetch(moved_schedules.STORE, {"digest": digest})
