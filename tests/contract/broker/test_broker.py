"""The broker under a real Dramatiq worker."""

import itertools
import threading
from datetime import timedelta

import pytest
from sqlalchemy import text

from app.db import Database
from app.executions.model import DeliveryError
from app.executions.verdict import Verdict
from brokers.attempt import Attempt
from tests import rows
from tests.contract.conftest import StartWorker
from tests.waiting import eventually

OK = Verdict.success({"status_code": 200, "body": "OK"})


def succeed(attempt: Attempt) -> None:
    attempt.begin()
    attempt.conclude(OK)


def test_everything_due_is_delivered_once(database: Database, start_worker: StartWorker, shards: int) -> None:
    expected = rows.add_executions(database, 100, shards=shards)
    seen: list[str] = []

    def body(attempt: Attempt) -> None:
        seen.append(attempt.claim.execution_id)
        succeed(attempt)

    start_worker(body)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 100})
    assert sorted(seen) == sorted(expected)


def test_nothing_starts_before_its_instant(database: Database, start_worker: StartWorker, shards: int) -> None:
    for step in range(10):
        rows.add_executions(database, 1, due_in=timedelta(milliseconds=300 + 20 * step), shards=shards)
    start_worker(succeed)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 10})
    early = database.fetch(text("SELECT execution_id FROM executions WHERE started_at < run_at"))
    assert early == []


def raises(attempt: Attempt) -> None:
    raise RuntimeError("boom")


def raises_after_begin(attempt: Attempt) -> None:
    attempt.begin()
    raise RuntimeError("boom")


def forgets(attempt: Attempt) -> None:
    """Returns without a verdict."""


@pytest.mark.parametrize("body", [raises, raises_after_begin, forgets])
def test_no_success_without_a_verdict(database: Database, start_worker: StartWorker, body: object, shards: int) -> None:
    """Invariant 3: Dramatiq would acknowledge each of these as done."""
    (execution_id,) = rows.add_executions(database, shards=shards)
    start_worker(body)
    eventually(lambda: rows.statuses(database) == {"FAILED": 1})
    (tried,) = rows.attempts(database, execution_id)
    assert tried.error["type"] == "NO_VERDICT"


def test_capacity_bounds_what_is_in_flight(database: Database, start_worker: StartWorker, shards: int) -> None:
    rows.add_executions(database, 30, shards=shards)
    begun: list[Attempt] = []
    full = threading.Semaphore(0)

    def begin(attempt: Attempt) -> None:
        attempt.begin()
        begun.append(attempt)
        full.release()

    _, process = start_worker(begin, capacity=7)
    for _ in range(7):
        assert full.acquire(timeout=60)
    assert rows.statuses(database) == {"QUEUED": 23, "RUNNING": 7}
    assert not full.acquire(timeout=0.3)
    begun[0].conclude(OK)
    assert full.acquire(timeout=60), "a concluded attempt must make room for the next claim"
    for attempt in begun:
        attempt.conclude(OK)
    assert process.in_flight.capacity == 7


def test_stop_hands_unstarted_claims_back_and_lets_started_ones_end(
    database: Database, start_worker: StartWorker, shards: int
) -> None:
    rows.add_executions(database, 5, due_in=timedelta(seconds=60), shards=shards)
    (running,) = rows.add_executions(database, 1, max_attempts=2, shards=shards)
    begun = threading.Event()
    waiting: list[Attempt] = []

    def body(attempt: Attempt) -> None:
        attempt.begin()
        waiting.append(attempt)
        begun.set()

    worker, _ = start_worker(body, claim_ahead_ms=120_000, shutdown_timeout_seconds=60.0)
    assert begun.wait(60)
    eventually(lambda: rows.statuses(database) == {"RUNNING": 6})
    stopper = threading.Thread(target=worker.stop)
    stopper.start()
    eventually(lambda: rows.statuses(database) == {"QUEUED": 5, "RUNNING": 1})
    stopper.join(timeout=2)
    assert stopper.is_alive(), "it waits for what was started"
    with database.engine.begin() as other:
        lock = text("SELECT 1 FROM executions WHERE execution_id = :id FOR UPDATE")
        other.execute(lock, {"id": running})
        waiting[0].conclude(OK)
        stopper.join(timeout=1)
        assert stopper.is_alive(), "it waits for the result to be written"
    stopper.join(timeout=60)
    assert not stopper.is_alive()
    assert rows.execution(database, running).status == "SUCCESS"
    spent = database.fetch(text("SELECT attempt_count FROM executions WHERE status = 'QUEUED'"))
    assert {row.attempt_count for row in spent} == {0}
    (worker_row,) = database.fetch(text("SELECT status FROM workers"))
    assert worker_row.status == "DEAD"


def test_a_failed_attempt_is_tried_again_after_its_delay(
    database: Database, start_worker: StartWorker, shards: int
) -> None:
    (execution_id,) = rows.add_executions(database, 1, max_attempts=3, shards=shards)

    def body(attempt: Attempt) -> None:
        attempt.begin()
        error = DeliveryError("HTTP_ERROR", "answered 503")
        attempt.conclude(OK if attempt.claim.attempt == 3 else Verdict.retry(error, 100))

    start_worker(body)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 1})
    tried = rows.attempts(database, execution_id)
    assert [(a.attempt_number, a.status) for a in tried] == [(1, "FAILED"), (2, "FAILED"), (3, "SUCCESS")]
    for earlier, later in itertools.pairwise(tried):
        assert (later.started_at - earlier.completed_at).total_seconds() >= 0.1


def test_a_claim_whose_answer_was_lost_is_handed_back(
    database: Database, start_worker: StartWorker, shards: int
) -> None:
    """Rows that the database believes to be ours, and that are not in flight, go back without an attempt spent."""
    started = threading.Event()

    def body(attempt: Attempt) -> None:
        succeed(attempt)
        started.set()

    worker, process = start_worker(body, poll_interval_ms=20)
    stray = rows.add_executions(database, 1, due_in=timedelta(hours=1), shards=shards)[0]
    database.fetch(
        text(
            "UPDATE executions SET status = 'RUNNING', worker_id = :w, attempt_count = 1, started_at = now(), "
            "run_at = now()"
        ),
        {"w": process.worker_id},
    )
    assert rows.execution(database, stray).status == "RUNNING"
    worker.consumers["http"].consumer.after_lost_answer()
    assert started.wait(60)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 1})
    assert [a.attempt_number for a in rows.attempts(database, stray)] == [1]
