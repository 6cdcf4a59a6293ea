"""Each statement that sets the due time of an execution sets `expires_at` from its endpoint's `max_age_ms`."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from sqlalchemy import text

from app.catalog.retry_policy import RetryPolicy
from app.kernel import ids
from app.kernel.db import Database
from app.queue.executions import on_hold
from app.queue.executions.completion import Completion, complete
from app.queue.executions.execution_model import DeliveryError
from app.queue.executions.manual_retry import retry_execution
from app.queue.executions.promotion import promote
from app.queue.executions.rescheduling import NewDueTime, reschedule
from app.queue.executions.verdict import Tried, decide
from app.queue.jobs.job_batch import create_many
from app.queue.jobs.job_creation import Creator
from app.queue.jobs.job_model import NewJob
from app.queue.jobs.run_now import run_job
from brokers.worker_process import WorkerProcess
from schema.states import Trigger
from tests import rows
from tests.claiming import release, take
from tests.contract.scheduler.conftest import chores
from tests.cron_jobs import add_interval_job

AGE, AGO = timedelta(minutes=10), timedelta(hours=1)
POLICY = RetryPolicy(max_attempts=3, max_age_ms=600_000)


@pytest.fixture
def bounded(database: Database) -> Database:
    """A database with the endpoint `bounded` and its `max_age_ms` of ten minutes."""
    rows.add_endpoint(database, "bounded", retry_policy={"max_attempts": 3, "max_age_ms": 600_000})
    return database


def waiting(database: Database, status: str = "QUEUED", due_in: timedelta = -AGO) -> str:
    (execution_id,) = rows.add_executions(database, endpoint="bounded", status=status, due_in=due_in, max_attempts=3)
    return execution_id


def expires_at(database: Database, execution_id: str) -> datetime | None:
    found: datetime | None = rows.execution(database, execution_id).expires_at
    return found


def ages(database: Database) -> list[timedelta | None]:
    """Return how long each execution may wait after its `run_at`."""
    found = database.fetch(text("SELECT expires_at - run_at AS age FROM executions"))
    return [row.age for row in found]


@pytest.mark.parametrize(("endpoint", "age"), [("bounded", AGE), ("target", None)])
def test_new_executions_expire_by_their_policy(bounded: Database, endpoint: str, age: timedelta | None) -> None:
    creator = Creator(bounded, shards=1, look_ahead_ms=0)
    later = rows.database_now(bounded) + AGO
    new = NewJob(endpoint=endpoint, trigger=Trigger.IMMEDIATE, input={})
    creator.create(new)
    create_many(creator, [new, NewJob(endpoint=endpoint, trigger=Trigger.DELAYED, input={}, run_at=later)])
    ms = None if age is None else age // timedelta(milliseconds=1)
    tick = add_interval_job(bounded, timedelta(days=1), missed=AGO, endpoint=endpoint, max_age_ms=ms)
    assert chores(bounded).materialize()["ticks"] == 1
    run_job(bounded, tick, 1)
    assert ages(bounded) == [age] * 5


def test_execution_promoted_late_expires_later(bounded: Database) -> None:
    """No scheduler ran when the execution was due, so its age begins at its promotion."""
    first, due = waiting(bounded, "PENDING"), waiting(bounded, "PENDING", timedelta(milliseconds=900))
    retry = waiting(bounded, "PENDING")
    bounded.fetch(text("UPDATE executions SET attempt_count = 1 WHERE execution_id = :id"), {"id": retry})
    before = {each: rows.execution(bounded, each) for each in (first, due, retry)}
    assert promote(bounded, shard=0, ahead_ms=1000, limit=9)[0].total() == 3
    late = rows.execution(bounded, first)
    assert abs(late.expires_at - late.run_at - AGE) < timedelta(milliseconds=1)
    assert late.expires_at > rows.database_now(bounded)
    assert expires_at(bounded, due) == before[due].expires_at
    assert expires_at(bounded, retry) == before[retry].expires_at


def run_now(database: Database, execution_id: str) -> None:
    run_job(database, rows.job_of(database, execution_id).job_id, 1)


def move_later(database: Database, execution_id: str) -> None:
    later = NewDueTime(run_at=rows.database_now(database) + AGO)
    database.transact(lambda connection: reschedule(connection, [execution_id], later, ahead_ms=0, actor=None))


def resume_job(database: Database, execution_id: str) -> None:
    database.fetch(text("UPDATE executions SET on_hold = true, status = 'PENDING'"))
    job_id = rows.job_of(database, execution_id).job_id
    database.transact(lambda connection: on_hold.let_go(connection, job_id, 0, None))


@pytest.mark.parametrize("action", [run_now, move_later, resume_job])
def test_age_of_a_first_attempt_restarts_with_a_request_for_it(
    bounded: Database, action: Callable[[Database, str], None]
) -> None:
    execution_id = waiting(bounded)
    bounded.fetch(text("UPDATE executions SET run_at = now() + INTERVAL '5 minutes'"), {})  # deferred
    action(bounded, execution_id)
    row = rows.execution(bounded, execution_id)
    assert abs(row.expires_at - row.run_at - AGE) < timedelta(milliseconds=1)


@pytest.mark.parametrize("action", [run_now, move_later, resume_job])
def test_age_of_a_retry_does_not_restart_with_a_request_for_it(
    bounded: Database, action: Callable[[Database, str], None]
) -> None:
    execution_id = waiting(bounded)
    bounded.fetch(text("UPDATE executions SET status = 'RETRYING', attempt_count = 1"))
    before = expires_at(bounded, execution_id)
    action(bounded, execution_id)
    assert expires_at(bounded, execution_id) == before


def test_deferred_execution_keeps_its_age(bounded: Database, process: WorkerProcess) -> None:
    execution_id = waiting(bounded)
    before = expires_at(bounded, execution_id)
    (claim,) = take(bounded, process.worker_id).claims
    assert claim.expires_at == before
    assert release(bounded, process.worker_id, [claim.key], defer_ms={claim.key: 300_000}) == 1
    assert expires_at(bounded, execution_id) == before


def test_retry_expires_relative_to_the_time_first_planned(bounded: Database, process: WorkerProcess) -> None:
    """A tick that was caught up late is due after its planned time, but its retries expire by the planned time."""
    execution_id = waiting(bounded, due_in=timedelta(0))
    bounded.fetch(text("UPDATE executions SET scheduled_at = now() - INTERVAL '5 minutes'"))
    (claim,) = take(bounded, process.worker_id).claims
    verdict = decide(DeliveryError("TIMEOUT", "no answer"), None, Tried(execution_id, 1, 3), POLICY, spread=0.0)
    ended = Completion(claim, ids.attempt_id(), verdict, claim.claimed_at, 5, ())
    assert complete(bounded, process.worker_id, [ended]) == {execution_id}
    row = rows.execution(bounded, execution_id)
    assert (row.status, row.expires_at) == ("RETRYING", row.scheduled_at + AGE)


def test_retry_after_a_lost_worker_expires_relative_to_the_time_first_planned(
    bounded: Database, process: WorkerProcess
) -> None:
    execution_id = waiting(bounded, due_in=timedelta(0))
    bounded.fetch(text("UPDATE executions SET scheduled_at = now() - INTERVAL '5 minutes'"))
    take(bounded, process.worker_id)
    bounded.fetch(text("UPDATE workers SET lease_expires_at = now() - INTERVAL '1 second'"))
    assert chores(bounded).reclaim_from_dead_workers()["retrying"] == 1
    row = rows.execution(bounded, execution_id)
    assert (row.status, row.expires_at) == ("RETRYING", row.scheduled_at + AGE)


def test_first_attempt_of_a_manual_retry_never_expires_but_its_retries_do(
    bounded: Database, process: WorkerProcess
) -> None:
    execution_id = waiting(bounded, due_in=timedelta(minutes=-5))
    bounded.fetch(text("UPDATE executions SET status = 'FAILED', attempt_count = 3, completed_at = now()"))
    retry_execution(bounded, execution_id, actor=None)
    assert expires_at(bounded, execution_id) is None
    (claim,) = take(bounded, process.worker_id).claims
    verdict = decide(DeliveryError("TIMEOUT", "no answer"), None, Tried(execution_id, 4, 6), POLICY, spread=0.0)
    complete(bounded, process.worker_id, [Completion(claim, ids.attempt_id(), verdict, claim.claimed_at, 5, ())])
    row = rows.execution(bounded, execution_id)
    assert (row.status, row.expires_at) == ("RETRYING", row.scheduled_at + AGE)


def test_new_endpoint_version_does_not_change_waiting_executions(bounded: Database) -> None:
    execution_id = waiting(bounded)
    before = expires_at(bounded, execution_id)
    bounded.fetch(text("UPDATE endpoints SET version = 2, retry_policy = NULL WHERE name = 'bounded'"))
    run_now(bounded, execution_id)
    row = rows.execution(bounded, execution_id)
    assert before is not None
    assert row.expires_at > before
    assert row.expires_at - row.run_at == AGE
