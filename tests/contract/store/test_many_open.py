"""A job with very many open executions: each change of it is done in transactions of a few hundred rows."""

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

MOST_IN_A_TRANSACTION = 500


@pytest.fixture
def job_id(database: Database) -> str:
    return add_interval_job(database, timedelta(hours=1), missed=timedelta(minutes=-30))


def timed(database: Database, change: Callable[[], object]) -> int:
    """Make a change; returns the most rows of executions that one of its statements changed."""
    most = [0]

    def after(_connection: Connection, cursor: object, sql: str, *_more: object) -> None:
        if "UPDATE executions" in sql:
            most.append(cursor.rowcount)  # type: ignore[attr-defined]

    event.listen(database.engine, "after_cursor_execute", after)
    began = time.monotonic()
    change()
    print(f"{OPEN} open executions: {time.monotonic() - began:.1f} s")
    event.remove(database.engine, "after_cursor_execute", after)
    return max(most)


@pytest.mark.parametrize("held", [False, True], ids=["waiting", "on hold"])
def test_cancel(database: Database, job_id: str, held: bool) -> None:
    put(database, job_id, held=held)
    assert timed(database, lambda: cancel_job(database, job_id)) == MOST_IN_A_TRANSACTION
    assert counts(database) == [("CANCELLED", False, OPEN)]
    assert job(database, job_id).status == "RETIRED"


def test_update(database: Database, job_id: str) -> None:
    put(database, job_id, held=False)
    creator = Creator(database, shards=1, look_ahead_ms=0)
    assert timed(database, lambda: update_job(creator, job_id, {"input": {}})) == MOST_IN_A_TRANSACTION
    assert counts(database) == [("CANCELLED", False, OPEN)]
    (reasons,) = database.fetch(text("SELECT reason, count(*) AS number FROM execution_events GROUP BY reason"))
    assert tuple(reasons) == ("JOB_UPDATED", OPEN)


@pytest.mark.parametrize("change", ["cancel", "update"])
def test_what_has_begun_and_is_on_hold_goes_on(database: Database, job_id: str, change: str) -> None:
    put(database, job_id, held=True, count=1200)
    database.fetch(text("UPDATE executions SET attempt_count = 1"))
    creator = Creator(database, shards=1, look_ahead_ms=0)
    verbs = {"cancel": lambda: cancel_job(database, job_id), "update": lambda: update_job(creator, job_id, {})}
    assert timed(database, verbs[change]) == MOST_IN_A_TRANSACTION
    assert counts(database) == [("QUEUED", False, 1200)]


def test_pause(database: Database, job_id: str) -> None:
    put(database, job_id, held=False)
    assert timed(database, lambda: pause_job(database, job_id)) == MOST_IN_A_TRANSACTION
    assert counts(database) == [("PENDING", True, OPEN)]


def test_resume(database: Database, job_id: str) -> None:
    put(database, job_id, held=True)
    assert timed(database, lambda: resume_job(database, job_id, 0)) == MOST_IN_A_TRANSACTION
    assert counts(database) == [("QUEUED", False, OPEN)]
