"""Changes of a job with many unfinished executions: each transaction changes a few hundred rows."""

import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import Connection, event, text

from app.kernel.db import Database
from app.queue.jobs.job_cancellation import cancel_job
from app.queue.jobs.job_creation import Creator
from app.queue.jobs.job_pause import pause_job, resume_job
from app.queue.jobs.job_update import update_job
from tests.cron_jobs import add_interval_job, job
from tests.many_open import OPEN, counts, put

MAX_ROWS_PER_STATEMENT = 500


@pytest.fixture
def job_id(database: Database) -> str:
    return add_interval_job(database, timedelta(hours=1), missed=timedelta(minutes=-30))


def max_rows_of(database: Database, change: Callable[[], object]) -> int:
    """Make a change, and return the largest number of executions that one of its statements changed."""
    row_counts = [0]

    def after(_connection: Connection, cursor: object, sql: str, *_more: object) -> None:
        if "UPDATE executions" in sql:
            row_counts.append(cursor.rowcount)  # type: ignore[attr-defined]

    event.listen(database.engine, "after_cursor_execute", after)
    began = time.monotonic()
    change()
    print(f"{OPEN} open executions: {time.monotonic() - began:.1f} s")
    event.remove(database.engine, "after_cursor_execute", after)
    return max(row_counts)


@pytest.mark.parametrize("held", [False, True], ids=["waiting", "on hold"])
def test_cancellation_changes_at_most_500_executions_per_statement(database: Database, job_id: str, held: bool) -> None:
    put(database, job_id, held=held)
    assert max_rows_of(database, lambda: cancel_job(database, job_id)) == MAX_ROWS_PER_STATEMENT
    assert counts(database) == [("CANCELLED", False, OPEN)]
    assert job(database, job_id).status == "RETIRED"


def test_job_update_changes_at_most_500_executions_per_statement(database: Database, job_id: str) -> None:
    put(database, job_id, held=False)
    creator = Creator(database, shards=1, look_ahead_ms=0)
    assert max_rows_of(database, lambda: update_job(creator, job_id, {"input": {}})) == MAX_ROWS_PER_STATEMENT
    assert counts(database) == [("CANCELLED", False, OPEN)]
    (reasons,) = database.fetch(text("SELECT reason, count(*) AS number FROM execution_events GROUP BY reason"))
    assert tuple(reasons) == ("JOB_UPDATED", OPEN)


@pytest.mark.parametrize("change", ["cancel", "update"])
def test_begun_executions_on_hold_are_released(database: Database, job_id: str, change: str) -> None:
    put(database, job_id, held=True, count=1200)
    database.fetch(text("UPDATE executions SET attempt_count = 1"))
    creator = Creator(database, shards=1, look_ahead_ms=0)
    changes = {"cancel": lambda: cancel_job(database, job_id), "update": lambda: update_job(creator, job_id, {})}
    assert max_rows_of(database, changes[change]) == MAX_ROWS_PER_STATEMENT
    assert counts(database) == [("QUEUED", False, 1200)]


def test_pause_changes_at_most_500_executions_per_statement(database: Database, job_id: str) -> None:
    put(database, job_id, held=False)
    assert max_rows_of(database, lambda: pause_job(database, job_id)) == MAX_ROWS_PER_STATEMENT
    assert counts(database) == [("PENDING", True, OPEN)]


def test_resume_changes_at_most_500_executions_per_statement(database: Database, job_id: str) -> None:
    put(database, job_id, held=True)
    assert max_rows_of(database, lambda: resume_job(database, job_id, 0)) == MAX_ROWS_PER_STATEMENT
    assert counts(database) == [("QUEUED", False, OPEN)]
