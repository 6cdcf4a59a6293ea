"""Overdue cron and interval jobs, written as the API writes them."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import insert, text

from app.kernel import ids
from app.kernel.db import Database
from app.queue.executions import materialization
from app.schedule.cron import Schedule
from schema import tables
from tests import rows
from tests.ticks import ticks_between


def add_cron_job(
    database: Database,
    expression: str = "* * * * *",
    *,
    timezone: str = "UTC",
    missed: timedelta = timedelta(0),
    ends_at: datetime | None = None,
    max_attempts: int = 3,
) -> str:
    """Create an active cron job whose next run is the first tick later than `missed` ago, by the database's clock."""
    job_id = ids.job_id()
    params = {
        "job": job_id,
        "cron": expression,
        "zone": timezone,
        "next": Schedule.parse(expression, timezone).next_after(rows.database_now(database) - missed),
        "ends_at": ends_at,
        "max": max_attempts,
    }
    database.fetch(
        text(
            "INSERT INTO jobs (job_id, endpoint, endpoint_version, endpoint_type, trigger_type, cron_expression, "
            "                  cron_timezone, cron_next_run_at, cron_ends_at, max_attempts) "
            "VALUES (:job, 'target', 1, 'HTTP', 'CRON', :cron, :zone, :next, :ends_at, :max)"
        ),
        params,
    )
    return job_id


def add_interval_job(database: Database, every: timedelta, *, missed: timedelta = timedelta(0), **columns: Any) -> str:
    """Create an active interval job whose next run was `missed` ago; `columns` override columns of its row."""
    job_id, first = ids.job_id(), rows.database_now(database) - missed
    values = {
        "job_id": job_id,
        "endpoint": "target",
        "endpoint_version": 1,
        "endpoint_type": "HTTP",
        "trigger_type": "INTERVAL",
        "interval_ms": every // timedelta(milliseconds=1),
        "cron_starts_at": first,
        "cron_next_run_at": first,
        "max_attempts": 3,
    } | columns
    database.fetch(insert(tables.jobs).values(values).returning(tables.jobs.c.job_id))
    return job_id


def due_jobs(database: Database) -> list[materialization.DueJob]:
    """Read the jobs that the scheduler would materialise now."""
    return materialization.due(database, ahead_ms=0, limit=100)[0]


def daily(database: Database) -> str:
    """Return a cron expression that fired an hour ago and fires daily, so that no tick comes due during a test."""
    hour_ago = rows.database_now(database) - timedelta(hours=1)
    return f"{hour_ago.minute} {hour_ago.hour} * * *"


def scheduled(database: Database, job_id: str) -> list[datetime]:
    """Read the due times of a job's executions, in order of creation."""
    query = text("SELECT scheduled_at FROM executions WHERE job_id = :job ORDER BY created_at, scheduled_at")
    return [row.scheduled_at for row in database.fetch(query, {"job": job_id})]


def missed_ticks(expression: str, timezone: str, begin: datetime, end: datetime) -> list[datetime]:
    """Compute the ticks in (begin, end]."""
    return ticks_between(Schedule.parse(expression, timezone), begin, end)


def job(database: Database, job_id: str) -> Any:
    """Read one job."""
    return database.fetch(text("SELECT * FROM jobs WHERE job_id = :job"), {"job": job_id})[0]
