"""A revision over tables in use: jobs are stored, claimed and completed during each of its long steps."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from app.kernel.db import Database
from brokers.attempt import Attempt, Stage
from tests import rows
from tests.contract.conftest import StartWorker
from tests.contract.migration.conftest import Migrator
from tests.verdicts import success
from tests.waiting import eventually

# A step that reads a table stops in the middle of the read while the test holds the lock of its number.
STOPPING = text(
    """
    CREATE FUNCTION stops_at(number BIGINT) RETURNS BOOLEAN IMMUTABLE LANGUAGE plpgsql AS $$
    BEGIN
      IF current_setting('application_name') = 'te-migrate' THEN
        PERFORM pg_advisory_xact_lock_shared(number);
      END IF;
      RETURN true;
    END $$
    """
)
LOCK = text("SELECT pg_advisory_lock(:number)")
UNLOCK = text("SELECT pg_advisory_unlock(:number)")
STOPPED = text("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = :number AND NOT granted")
STEPS = (
    "online.create_index('idx_tried', 'executions', ['job_id', '(stops_at(0))'])",
    "online.add_check('executions', 'chk_tried', 'stops_at(1)')",
    "online.create_index('idx_tried_once', 'jobs', ['job_id', '(stops_at(2))'], unique=True)",
    "online.add_check('jobs', 'chk_tried', 'stops_at(3)')",
)
WAITING = 20_000
FLOWING = 100


def succeed(attempt: Attempt) -> None:
    attempt.enter(Stage.STARTED)
    attempt.complete(success({"status_code": 200, "body": "OK"}))


def test_jobs_flow_while_each_long_step_runs(
    database_url: str,
    database: Database,
    observer: Connection,
    start_worker: StartWorker,
    write_revision: Callable[..., Path],
) -> None:
    if database.is_cockroach:
        pytest.skip("CockroachDB changes its schema online by itself")
    database.fetch(STOPPING)
    rows.add_executions(database, WAITING, status="PENDING", due_in=timedelta(hours=1))
    for number in range(len(STEPS)):
        observer.execute(LOCK, {"number": number})
    start_worker(succeed)
    migrator = Migrator(database_url, write_revision(*STEPS))
    for number, step in enumerate(STEPS):
        eventually(lambda at=number: observer.execute(STOPPED, {"number": at}).all(), what=step)  # type: ignore[misc]
        rows.add_executions(database, FLOWING)
        expected = {"PENDING": WAITING, "SUCCESS": FLOWING * (number + 1)}
        eventually(lambda goal=expected: rows.statuses(database) == goal, what=f"{FLOWING} executions during {step}")  # type: ignore[misc]
        assert observer.execute(STOPPED, {"number": number}).all(), "the step is still stopped"
        observer.execute(UNLOCK, {"number": number})
    assert migrator.finish() == "9001"
