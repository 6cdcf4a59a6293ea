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
from tests.verdicts import success
from tests.waiting import eventually

OK = success({"status_code": 200, "body": "OK"})


def succeed(attempt: Attempt) -> None:
    attempt.enter(Stage.STARTED)
    attempt.complete(OK)


def test_each_due_execution_is_delivered_once(database: Database, start_worker: StartWorker, shards: int) -> None:
    expected = rows.add_executions(database, 100, shards=shards)
    delivered: list[str] = []

    def body(attempt: Attempt) -> None:
        delivered.append(attempt.claim.execution_id)
        succeed(attempt)

    start_worker(body)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 100})
    assert sorted(delivered) == sorted(expected)


def raises(attempt: Attempt) -> None:
    raise RuntimeError("boom")


def raises_after_begin(attempt: Attempt) -> None:
    attempt.enter(Stage.STARTED)
    raise RuntimeError("boom")


def returns_without_verdict(attempt: Attempt) -> None:
    pass


@pytest.mark.parametrize("body", [raises, raises_after_begin, returns_without_verdict])
def test_no_success_without_a_verdict(database: Database, start_worker: StartWorker, body: object, shards: int) -> None:
    """Invariant 3 of ARCHITECTURE.md. Dramatiq acknowledges the message of each of these actors as done."""
    executions = rows.add_executions(database, 3, shards=shards)
    start_worker(body)
    eventually(lambda: rows.statuses(database) == {"FAILED": 3})
    for execution_id in executions:
        (tried,) = rows.attempts(database, execution_id)
        assert tried.error["type"] == "NO_VERDICT"


def test_capacity_bounds_the_attempts_in_flight(database: Database, start_worker: StartWorker, shards: int) -> None:
    rows.add_executions(database, 30, shards=shards)
    begun: list[Attempt] = []
    started = threading.Semaphore(0)

    def begin(attempt: Attempt) -> None:
        attempt.enter(Stage.STARTED)
        begun.append(attempt)
        started.release()

    _, process = start_worker(begin, capacity=7)
    for _ in range(7):
        assert started.acquire(timeout=60)
    assert rows.statuses(database) == {"QUEUED": 23, "RUNNING": 7}
    assert not started.acquire(timeout=0.3)
    begun[0].complete(OK)
    assert started.acquire(timeout=60), "the next execution is claimed once an attempt has completed"
    for attempt in begun:
        attempt.complete(OK)
    assert process.shares.capacity == 7


def test_failed_attempt_is_retried_after_its_delay(database: Database, start_worker: StartWorker, shards: int) -> None:
    (execution_id,) = rows.add_executions(database, 1, max_attempts=3, shards=shards)

    def body(attempt: Attempt) -> None:
        attempt.enter(Stage.STARTED)
        error = DeliveryError("HTTP_ERROR", "answered 503")
        attempt.complete(OK if attempt.claim.attempt == 3 else Verdict.retry(error, 100))

    start_worker(body, claim_ahead_ms=0)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 1})
    tried = rows.attempts(database, execution_id)
    assert [(a.attempt_number, a.status) for a in tried] == [(1, "FAILED"), (2, "FAILED"), (3, "SUCCESS")]
    for earlier, later in itertools.pairwise(tried):
        assert (later.started_at - earlier.completed_at).total_seconds() >= 0.1


def test_claim_whose_database_answer_was_lost_is_released(
    database: Database, start_worker: StartWorker, shards: int
) -> None:
    """The consumer releases rows claimed for its worker that are not in flight. No attempt is spent."""
    started = threading.Event()

    def body(attempt: Attempt) -> None:
        succeed(attempt)
        started.set()

    worker, process = start_worker(body, poll_interval_ms=20)
    rows.add_executions(database, 1, shards=shards)
    assert started.wait(60), "a consumer releases orphaned claims before its first own claim"
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 1})
    started.clear()
    orphan = rows.add_executions(database, 1, due_in=timedelta(hours=1), shards=shards)[0]
    database.fetch(
        text(
            "UPDATE executions SET status = 'RUNNING', worker_id = :w, attempt_count = 1, started_at = now(), "
            "run_at = now() WHERE execution_id = :id"
        ),
        {"w": process.worker_id, "id": orphan},
    )
    assert rows.execution(database, orphan).status == "RUNNING"
    worker.consumers["http"].consumer.after_lost_answer()
    assert started.wait(60)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 2})
    assert [a.attempt_number for a in rows.attempts(database, orphan)] == [1]


def test_attempts_that_an_actor_left_unprocessed_fail_without_a_verdict(
    database: Database, start_worker: StartWorker, shards: int
) -> None:
    """The actor raises at the fourth attempt. Earlier attempts have completed; later attempts were not processed."""
    executions = rows.add_executions(database, 6, shards=shards)

    def body(attempt: Attempt) -> None:
        if attempt.claim.execution_id == executions[3]:
            raise RuntimeError("boom")
        succeed(attempt)

    start_worker(body)
    eventually(lambda: sum(count for status, count in rows.statuses(database).items() if status in FINAL) == 6)
    failed = [id_ for id_ in executions if rows.execution(database, id_).status == "FAILED"]
    assert executions[3] in failed
    for execution_id in failed:
        (tried,) = rows.attempts(database, execution_id)
        assert tried.error["type"] == "NO_VERDICT"


class SkipEveryMessage(Middleware):
    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        raise SkipMessage


def test_batch_skipped_by_a_middleware_fails(database: Database, start_worker: StartWorker, shards: int) -> None:
    worker, _ = start_worker(succeed)
    worker.broker.add_middleware(SkipEveryMessage())
    rows.add_executions(database, 6, shards=shards)
    eventually(lambda: rows.statuses(database) == {"FAILED": 6})


def test_batch_without_an_actor_fails(database: Database, start_worker: StartWorker, shards: int) -> None:
    worker, _ = start_worker(succeed)
    worker.broker.actors.clear()
    rows.add_executions(database, 6, shards=shards)
    eventually(lambda: rows.statuses(database) == {"FAILED": 6})


def test_stopping_worker_releases_batches_that_no_actor_has_received(
    database: Database, start_worker: StartWorker, shards: int
) -> None:
    """Each of the four threads finishes its current batch. The remaining batches have spent no attempt."""
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
