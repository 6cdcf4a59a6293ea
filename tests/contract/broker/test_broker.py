"""The broker under a real Dramatiq worker."""

import itertools
import threading
from datetime import timedelta

import pytest
from dramatiq.broker import Broker, MessageProxy
from dramatiq.middleware import Middleware, SkipMessage
from sqlalchemy import text

from app.kernel.db import Database
from app.queue.executions.execution_model import DeliveryError
from app.queue.executions.verdict import Verdict
from brokers.attempt import Attempt, Stage
from schema.states import FINAL
from tests import rows
from tests.contract.conftest import StartWorker
from tests.waiting import eventually

OK = Verdict.success({"status_code": 200, "body": "OK"})


def succeed(attempt: Attempt) -> None:
    attempt.enter(Stage.STARTED)
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


def raises(attempt: Attempt) -> None:
    raise RuntimeError("boom")


def raises_after_begin(attempt: Attempt) -> None:
    attempt.enter(Stage.STARTED)
    raise RuntimeError("boom")


def forgets(attempt: Attempt) -> None:
    """Returns without a verdict."""


@pytest.mark.parametrize("body", [raises, raises_after_begin, forgets])
def test_no_success_without_a_verdict(database: Database, start_worker: StartWorker, body: object, shards: int) -> None:
    """Invariant 3: Dramatiq would acknowledge each of these as done."""
    executions = rows.add_executions(database, 3, shards=shards)
    start_worker(body)
    eventually(lambda: rows.statuses(database) == {"FAILED": 3})
    for execution_id in executions:
        (tried,) = rows.attempts(database, execution_id)
        assert tried.error["type"] == "NO_VERDICT"


def test_capacity_bounds_what_is_in_flight(database: Database, start_worker: StartWorker, shards: int) -> None:
    rows.add_executions(database, 30, shards=shards)
    begun: list[Attempt] = []
    full = threading.Semaphore(0)

    def begin(attempt: Attempt) -> None:
        attempt.enter(Stage.STARTED)
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
    assert process.shares.capacity == 7


def test_a_failed_attempt_is_tried_again_after_its_delay(
    database: Database, start_worker: StartWorker, shards: int
) -> None:
    (execution_id,) = rows.add_executions(database, 1, max_attempts=3, shards=shards)

    def body(attempt: Attempt) -> None:
        attempt.enter(Stage.STARTED)
        error = DeliveryError("HTTP_ERROR", "answered 503")
        attempt.conclude(OK if attempt.claim.attempt == 3 else Verdict.retry(error, 100))

    start_worker(body, claim_ahead_ms=0)
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
    rows.add_executions(database, 1, shards=shards)
    assert started.wait(60), "a consumer releases strays before its first claim"
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 1})
    started.clear()
    stray = rows.add_executions(database, 1, due_in=timedelta(hours=1), shards=shards)[0]
    database.fetch(
        text(
            "UPDATE executions SET status = 'RUNNING', worker_id = :w, attempt_count = 1, started_at = now(), "
            "run_at = now() WHERE execution_id = :id"
        ),
        {"w": process.worker_id, "id": stray},
    )
    assert rows.execution(database, stray).status == "RUNNING"
    worker.consumers["http"].consumer.after_lost_answer()
    assert started.wait(60)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 2})
    assert [a.attempt_number for a in rows.attempts(database, stray)] == [1]


def test_what_an_actor_leaves_of_a_batch_has_no_verdict(
    database: Database, start_worker: StartWorker, shards: int
) -> None:
    """It raises at one attempt; those before it have ended, and those behind it were never looked at."""
    executions = rows.add_executions(database, 6, shards=shards)

    def body(attempt: Attempt) -> None:
        if attempt.claim.execution_id == executions[3]:
            raise RuntimeError("boom")
        succeed(attempt)

    start_worker(body)
    eventually(lambda: sum(count for status, count in rows.statuses(database).items() if status in FINAL) == 6)
    failed = [one for one in executions if rows.execution(database, one).status == "FAILED"]
    assert executions[3] in failed
    for one in failed:
        (tried,) = rows.attempts(database, one)
        assert tried.error["type"] == "NO_VERDICT"


class Skips(Middleware):
    """Skips every message."""

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        raise SkipMessage


def test_a_batch_that_a_middleware_skips_has_failed(database: Database, start_worker: StartWorker, shards: int) -> None:
    worker, _ = start_worker(succeed)
    worker.broker.add_middleware(Skips())
    rows.add_executions(database, 6, shards=shards)
    eventually(lambda: rows.statuses(database) == {"FAILED": 6})


def test_a_batch_for_no_actor_has_failed(database: Database, start_worker: StartWorker, shards: int) -> None:
    worker, _ = start_worker(succeed)
    worker.broker.actors.clear()
    rows.add_executions(database, 6, shards=shards)
    eventually(lambda: rows.statuses(database) == {"FAILED": 6})


def test_a_stop_hands_back_the_batches_that_no_actor_has_seen(
    database: Database, start_worker: StartWorker, shards: int
) -> None:
    """Each of the four threads finishes the batch that it is at; the others have spent nothing."""
    may_end = threading.Event()

    def body(attempt: Attempt) -> None:
        may_end.wait()
        succeed(attempt)

    worker, process = start_worker(body)
    for batch in range(1, 7):
        rows.add_executions(database, 2, shards=shards)
        eventually(lambda claimed=2 * batch: rows.statuses(database) == {"RUNNING": claimed})  # type: ignore[misc]
    stopper = threading.Thread(target=worker.stop)
    stopper.start()
    assert process.draining.wait(60)
    eventually(lambda: not any(thread.running for thread in worker.workers))
    may_end.set()
    stopper.join(timeout=60)
    counts = rows.statuses(database)
    assert set(counts) == {"QUEUED", "SUCCESS"}
    spent = database.fetch(text("SELECT attempt_count FROM executions WHERE status = 'QUEUED'"))
    assert {row.attempt_count for row in spent} == {0}
