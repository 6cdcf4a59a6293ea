"""The consumer without a Dramatiq worker: calls that Dramatiq makes at unusual moments."""

import signal
from datetime import timedelta

import pytest
from sqlalchemy import event, text

from app.dev.process.proxy import Mode, Proxy
from app.kernel import db
from app.kernel.db import Database
from app.kernel.metrics.series import ORPHANS, STALE
from app.queue.claiming.poll import POLL_1, POLL_16
from brokers import middleware
from brokers.attempt import Attempt, Stage
from brokers.consumer import MAX_PER_MESSAGE, MAX_PER_MESSAGE_OF_RETRIES, ClaimConsumer
from brokers.discovery import DiscoveryTimes
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.claiming import NEVER, take
from tests.contract.broker.delivering import LONG_MS, OK, Attempts, attempts_of
from tests.contract.conftest import worker_process
from tests.waiting import eventually

COMMITTED_CLAIM = """
    UPDATE executions SET status = 'RUNNING', worker_id = :worker, started_at = now(), attempt_count = 1, run_at = now()
     WHERE execution_id = :id
"""


def test_completed_attempt_wakes_the_consumer_of_a_full_process(process: WorkerProcess, shards: int) -> None:
    process.shares.capacity = 1
    rows.add_executions(process.database, 2, shards=shards)
    attempts = Attempts(process)
    first = attempts.next()
    received: list[Attempt] = []
    thread = attempts.next_in_thread(received)
    assert not received
    first.enter(Stage.STARTED)
    first.complete(OK)
    thread.join(timeout=60)
    assert len(received) == 1
    received[0].complete(OK)


def test_wake_up_ends_the_wait_of_an_idle_consumer(process: WorkerProcess, shards: int) -> None:
    """The consumer finds nothing by its first poll; the next one is an hour away."""
    statements: list[str] = []
    event.listen(process.database.engine, "after_cursor_execute", lambda *call: statements.append(call[2]))
    received: list[Attempt] = []
    times = DiscoveryTimes(first_idle_wait_seconds=3600.0, scan_pace=NEVER)
    thread = Attempts(process, times=times).next_in_thread(received)
    eventually(lambda: {POLL_1.text, POLL_16.text} & set(statements), what="the poll")
    rows.add_executions(process.database, 1, shards=shards)
    process.inboxes.wake("http")
    thread.join(timeout=60)
    (attempt,) = received
    attempt.complete(OK)


def test_requeued_messages_are_released_and_due_now(process: WorkerProcess, shards: int) -> None:
    """Dramatiq passes a generator, which can be empty.

    The executions become due now, because polls of other workers start at a recent due time.
    """
    late = rows.add_executions(process.database, 2, due_in=timedelta(hours=-1), shards=shards)
    (stopped,) = process.database.fetch(text("SELECT now() AS at"))
    consumer = ClaimConsumer(process, "http", 100)
    messages = [next(consumer)]
    while sum(len(attempts_of(message)) for message in messages) < 2:
        messages.append(next(consumer))
    consumer.requeue(message for message in messages if message is not None)
    consumer.requeue(iter(()))
    eventually(lambda: rows.statuses(process.database) == {"QUEUED": 2})
    assert len(process.shares) == 0
    assert all(rows.execution(process.database, id_).run_at > stopped.at for id_ in late)


def test_close_is_idempotent_and_accepts_a_later_ack(process: WorkerProcess, shards: int) -> None:
    rows.add_executions(process.database, 1, shards=shards)
    consumer = ClaimConsumer(process, "http", 100)
    message = next(consumer)
    assert message is not None
    (attempt,) = attempts_of(message)
    attempt.enter(Stage.STARTED)
    consumer.close()
    consumer.close()
    attempt.complete(OK)
    consumer.ack(message)
    consumer.nack(message)
    assert process.finalizer.flush(60)
    assert rows.statuses(process.database) == {"SUCCESS": 1}


def test_attempt_in_flight_or_being_written_is_not_released_as_orphaned(
    database: Database, process: WorkerProcess, shards: int
) -> None:
    """After the lost answer of a claim, only claims unknown to the process are released."""
    if database.is_cockroach:
        pytest.skip("needs a view of the sessions that wait for a lock")
    rows.add_executions(database, 3, shards=shards)
    attempts = Attempts(process)
    writing, waiting, in_flight = (attempts.next() for _ in range(3))
    for attempt in (writing, waiting, in_flight):
        attempt.enter(Stage.STARTED)
    with database.engine.begin() as locking:
        lock = text("SELECT 1 FROM executions WHERE execution_id = :id FOR UPDATE")
        locking.execute(lock, {"id": writing.claim.execution_id})
        writing.complete(OK)
        eventually(lambda: rows.is_a_lock_waited_for(database), what="the finalizer's wait for the lock")
        waiting.complete(OK)
        rows.add_executions(database, 1, shards=shards)
        attempts.consumer.after_lost_answer()
        late = attempts.next()
    late.enter(Stage.STARTED)
    for attempt in (in_flight, late):
        attempt.complete(OK)
    assert process.finalizer.flush(60)
    assert process.values.total(ORPHANS) == 0
    assert rows.statuses(database) == {"SUCCESS": 4}
    assert process.values.total(STALE) == 0


@pytest.mark.parametrize(("earlier_attempts", "most"), [(0, MAX_PER_MESSAGE), (1, MAX_PER_MESSAGE_OF_RETRIES)])
def test_message_carries_many_first_attempts_or_few_retries(
    process: WorkerProcess, earlier_attempts: int, most: int
) -> None:
    """Each message wakes a thread, but the retries of a message read their earlier attempts one after the other."""
    count = 4 * MAX_PER_MESSAGE
    process.shares.capacity = 10 * count
    rows.add_executions(process.database, count, max_attempts=2)
    with process.database.engine.begin() as connection:
        connection.execute(text("UPDATE executions SET attempt_count = :count"), {"count": earlier_attempts})
    consumer, sizes = ClaimConsumer(process, "http", LONG_MS), list[int]()
    while sum(sizes) < count:
        sizes.append(len(attempts := attempts_of(next(consumer))))
        for attempt in attempts:
            attempt.complete(OK)
    assert max(sizes) == most


def test_draining_process_claims_nothing(process: WorkerProcess, shards: int) -> None:
    rows.add_executions(process.database, 1, shards=shards)
    consumer = ClaimConsumer(process, "http", 10)
    process.drain()
    assert next(consumer) is None
    assert rows.statuses(process.database) == {"QUEUED": 1}


@pytest.mark.parametrize(("repeat_seconds", "passed_on"), [(3600.0, 1), (0.0, 2)])
def test_sigterm_stops_claims_at_once_and_an_early_repeat_is_ignored(
    process: WorkerProcess, repeat_seconds: float, passed_on: int
) -> None:
    """Dramatiq itself reacts to SIGTERM within a second; until then the process must not claim more."""
    signals: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: signals.append(number))
    try:
        middleware.install_term_handler(process, repeat_seconds)
        assert not process.draining.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert process.draining.is_set()
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert len(signals) == passed_on


def test_released_execution_keeps_its_due_time_and_is_claimed_again(process: WorkerProcess) -> None:
    """The execution is due before the watermarks of all polls, and no full scan runs during the test.

    A release with `is_noted=False` leaves no event in the history.
    """
    (overdue,) = rows.add_executions(process.database, due_in=timedelta(hours=-1))
    before = rows.execution(process.database, overdue)
    attempts = Attempts(process, times=DiscoveryTimes(scan_pace=NEVER))
    for is_noted in (True, False, False):
        attempt = attempts.next()
        assert (attempt.claim.execution_id, attempt.claim.attempt) == (overdue, 1)
        attempt.release(is_noted=is_noted)
    last = attempts.next()
    assert rows.execution(process.database, overdue).run_at == before.run_at
    last.complete(OK)
    events = process.database.fetch(text("SELECT reason FROM execution_events ORDER BY occurred_at"))
    assert [event.reason for event in events] == ["CLAIMED", "HANDED_BACK"]


def test_new_consumer_releases_claims_of_a_dead_consumer(process: WorkerProcess) -> None:
    """The dead consumer did not read the answer: its rows are claimed for this worker, but unknown to the process."""
    (orphan,) = rows.add_executions(process.database, 1)
    take(process.database, process.worker_id, 1)
    attempt = Attempts(process).next()
    assert (attempt.claim.execution_id, attempt.claim.attempt) == (orphan, 1)
    attempt.enter(Stage.STARTED)
    attempt.complete(OK)


def test_claim_that_commits_after_its_consumer_has_checked_is_released(database: Database, database_url: str) -> None:
    """The answer is lost while the server still commits: the check before the next claim cannot find the rows."""
    lease = db.connect(database_url, pool_size=1, application_name="te-test-lease")
    process = worker_process(database, lease, lease_seconds=600, orphan_check_seconds=0.1)
    process.open(["http"])
    attempts = Attempts(process)
    rows.add_executions(database, 1)
    attempts.next().complete(OK)
    attempts.consumer.after_lost_answer()
    received: list[Attempt] = []
    thread = attempts.next_in_thread(received)
    eventually(lambda: attempts.consumer._check_at > 0)  # noqa: SLF001 - it has checked, and found nothing
    (orphan,) = rows.add_executions(database, 1, due_in=timedelta(hours=1))
    database.fetch(text(COMMITTED_CLAIM), {"id": orphan, "worker": process.worker_id})
    thread.join(60)
    assert [(one.claim.execution_id, one.claim.attempt) for one in received] == [(orphan, 1)]
    assert process.values.total(ORPHANS) == 1
    received[0].complete(OK)
    process.close()


SLOW_COMMIT = """
CREATE SEQUENCE claims;
CREATE FUNCTION wait_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF nextval('claims') = 1 THEN PERFORM pg_sleep(3); END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER wait_once AFTER UPDATE ON executions DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (NEW.status = 'RUNNING') EXECUTE FUNCTION wait_once();
"""


@pytest.mark.postgresql_only
def test_connection_lost_during_the_commit_of_a_claim_costs_no_attempt(database: Database, database_url: str) -> None:
    with database.engine.begin() as connection:
        connection.exec_driver_sql(SLOW_COMMIT)
    lease = db.connect(database_url, pool_size=1, application_name="te-test-lease")
    with Proxy(database.engine.url.port or 5432) as proxy:
        claiming = db.connect(proxy.url(database_url), pool_size=5, application_name="te-test-claiming")
        process = worker_process(claiming, lease, lease_seconds=600, orphan_check_seconds=0.5)
        process.open(["http"])
        (execution_id,) = rows.add_executions(database)
        received: list[Attempt] = []
        thread = Attempts(process).next_in_thread(received)
        called = text("SELECT is_called FROM claims")
        eventually(lambda: database.fetch(called)[0].is_called, what="the commit")
        proxy.set(Mode.CUT)
        proxy.set(Mode.PASS)
        thread.join(60)
        (attempt,) = received
        assert (attempt.claim.execution_id, attempt.claim.attempt) == (execution_id, 1)
        assert process.values.total(ORPHANS) == 1
        attempt.complete(OK)
        process.close()
