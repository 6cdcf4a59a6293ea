"""Recomputation of the next runs of cron jobs after a change of time zone rules, once per set of rules."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from sqlalchemy import Row

from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.function_types import Stopping
from app.kernel.sql import statement
from app.kernel.unreadable import report
from app.queue.executions.unlocked_rows import FREE_JOBS
from app.schedule import zone_rules
from app.schedule.timetable import Timetable

# Ticks this close may already be claimed, whatever the scheduler's look-ahead.
_MIN_AHEAD_MS = 5000

STORED = statement("time_zone_rules.stored", "SELECT digest FROM time_zone_rules WHERE id = 'rules'")
STORE = statement(
    "time_zone_rules.store",
    """
    INSERT INTO time_zone_rules (id, digest, updated_at) VALUES ('rules', :digest, now())
    ON CONFLICT (id) DO UPDATE SET digest = excluded.digest, updated_at = excluded.updated_at
    """,
)
JOBS = statement(
    "jobs.cron_jobs_to_come",
    """
    SELECT job_id, cron_expression, cron_timezone, interval_ms, fixed_delay, cron_starts_at, cron_ends_at, created_at,
           cron_next_run_at, cron_last_tick_at, catch_up, max_catch_up, overlap, now() AS now
      FROM jobs
     WHERE cron_next_run_at IS NOT NULL AND cron_next_run_at > now() AND trigger_type = 'CRON'
       AND (cron_next_run_at, job_id) > (CAST(:after_run_at AS TIMESTAMPTZ), CAST(:after_job AS TEXT))
     ORDER BY cron_next_run_at, job_id LIMIT :limit
    """,
)
MOVE = statement(
    "jobs.move_next_runs",
    """
    WITH {free_jobs},
    moved AS (
      UPDATE jobs AS j SET cron_next_run_at = u.next_run_at
        FROM unnest(CAST(:jobs AS TEXT[]), CAST(:expected AS TIMESTAMPTZ[]), CAST(:nexts AS TIMESTAMPTZ[]))
             AS u (job_id, expected, next_run_at)
        JOIN free_jobs AS free ON free.job_id = u.job_id
       WHERE j.job_id = ANY (CAST(:jobs AS TEXT[]))
         AND j.job_id = u.job_id AND j.cron_next_run_at = u.expected AND j.status = 'ACTIVE'
      RETURNING j.job_id)
    SELECT (SELECT count(*) FROM moved) AS moved,
           ARRAY(SELECT job_id FROM unnest(CAST(:jobs AS TEXT[])) AS u (job_id)
                  WHERE job_id NOT IN (SELECT job_id FROM free_jobs) ORDER BY job_id) AS locked
    """,
    free_jobs=FREE_JOBS,
)


def follow_rules(database: Database, *, ahead_ms: int, limit: int, stopping: Stopping) -> tuple[int, list[str]]:
    """Move the next runs of cron jobs if this process's rules are new.

    Returns the number of moved jobs, and the ids of jobs that another transaction has locked. While there are any, the
    rules stay new, so that a further call moves these jobs.
    """
    digest = zone_rules.digest()
    found = database.fetch(STORED)
    if found and found[0].digest == digest:
        return 0, []
    ahead, moved, all_locked = timedelta(milliseconds=max(ahead_ms, _MIN_AHEAD_MS)), 0, list[str]()
    params: dict[str, object] = {"after_run_at": EPOCH, "after_job": "", "limit": limit}
    while page := database.fetch(JOBS, params):
        if stopping():
            return moved, all_locked
        done, locked = _move(database, page, ahead)
        moved, all_locked = moved + done, all_locked + locked
        params |= {"after_run_at": page[-1].cron_next_run_at, "after_job": page[-1].job_id}
    if not all_locked:
        database.fetch(STORE, {"digest": digest})
    return moved, all_locked


def _move(database: Database, page: Sequence[Row[Any]], ahead: timedelta) -> tuple[int, list[str]]:
    wanted = {row.job_id: _wanted(row, row.now + ahead) for row in page}
    changed = sorted((row for row in page if wanted[row.job_id] != row.cron_next_run_at), key=attrgetter("job_id"))
    if not changed:
        return 0, []
    params: dict[str, object] = {
        "count": len(changed),
        "jobs": [row.job_id for row in changed],
        "expected": [row.cron_next_run_at for row in changed],
        "nexts": [wanted[row.job_id] for row in changed],
    }
    (row,) = database.fetch(MOVE, params)
    return row.moved, row.locked


def _wanted(row: Row[Any], horizon: datetime) -> datetime:
    next_run_at: datetime = row.cron_next_run_at
    if next_run_at <= horizon:
        return next_run_at
    try:
        return zone_rules.moved(
            Timetable.stored(row._asdict()),
            next_run_at,
            last_tick_at=row.cron_last_tick_at,
            created_at=row.created_at,
            horizon=horizon,
        )
    except Exception as error:  # noqa: BLE001 - a row may hold anything
        report(f"job {row.job_id}", error)
        return next_run_at
