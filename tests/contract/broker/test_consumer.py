"""The consumer on its own: what Dramatiq may ask of it at odd moments."""

import signal
import threading
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from app.kernel.db import Database
from app.kernel.metrics.series import STALE, STRAYS
from brokers import discovery, middleware
from brokers.attempt import Attempt, Stage
from brokers.consumer import ClaimConsumer
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.claiming import TARGET, take
from tests.contract.broker.delivering import OK, Attempts, of
from tests.waiting import eventually


def test_an_ended_attempt_wakes_a_full_process(process: WorkerProcess, shards: int) -> None:
    process.shares.capacity = 1
    rows.add_executions(process.database, 2, shards=shards)
    attempts = Attempts(process)
    first = attempts.next()
    got: list[Attempt] = []
    thread = attempts.next_in_thread(got)
    assert not got
    first.enter(Stage.STARTED)
    first.conclude(OK)
    thread.join(timeout=60)
    assert len(got) == 1
    got[0].conclude(OK)


def test_a_hint_wakes_an_idle_consumer(process: WorkerProcess, monkeypatch: pytest.MonkeyPatch, shards: int) -> None:
    monkeypatch.setattr(discovery, "FIRST_IDLE_WAIT_SECONDS", 3600.0)
    rows.add_executions(process.database, 1, shards=shards)
    attempts = Attempts(process)
    got = [attempts.next()]  # which leaves it idle: its next poll is an hour away
    thread = attempts.next_in_thread(got)
    rows.add_executions(process.database, 1, shards=shards)
    process.inboxes.wake("http")
    thread.join(timeout=60)
    assert len(got) == 2
    for attempt in got:
        attempt.conclude(OK)


def test_what_a_hint_names_is_claimed_before_anything_is_looked_for(process: WorkerProcess) -> None:
    """But the look that is due waits for one claim only."""
    consumer = ClaimConsumer(process, "http", 100)
    assert next(consumer) is None
    rows.add_executions(process.database)
    process.inboxes.wake("http")
    process.inboxes.wake("http", (TARGET,))
    statements: list[str] = []
    here = threading.get_ident()

    def note(*call: Any) -> None:
        if threading.get_ident() == here:  # the threads of the process have statements of their own
            statements.append(call[2])

    event.listen(process.database.engine, "before_cursor_execute", note)
    (attempt,) = of(next(consumer))
    assert ["FOR UPDATE SKIP LOCKED" in statement for statement in statements] == [True]
    assert next(consumer) is None
    assert "FOR UPDATE" not in statements[1]
    attempt.conclude(OK)


def test_messages_that_no_actor_has_seen_are_handed_back(process: WorkerProcess, shards: int) -> None:
    """Dramatiq passes a generator, or nothing. They are due now: others do not look for what was due long ago."""
    late = rows.add_executions(process.database, 2, due_in=timedelta(hours=-1), shards=shards)
    (stopped,) = process.database.fetch(text("SELECT now() AS at"))
    consumer = ClaimConsumer(process, "http", 100)
    messages = [next(consumer)]
    while sum(len(of(message)) for message in messages) < 2:
        messages.append(next(consumer))
    consumer.requeue(message for message in messages if message is not None)
    consumer.requeue(iter(()))
    eventually(lambda: rows.statuses(process.database) == {"QUEUED": 2})
    assert len(process.shares) == 0
    assert all(rows.execution(process.database, one).run_at > stopped.at for one in late)


def test_close_may_be_called_twice_and_an_ack_may_come_after_it(process: WorkerProcess, shards: int) -> None:
    rows.add_executions(process.database, 1, shards=shards)
    consumer = ClaimConsumer(process, "http", 100)
    message = next(consumer)
    assert message is not None
    (attempt,) = of(message)
    attempt.enter(Stage.STARTED)
    consumer.close()
    consumer.close()
    attempt.conclude(OK)
    consumer.ack(message)
    consumer.nack(message)
    assert process.finalizer.flush(60)
    assert rows.statuses(process.database) == {"SUCCESS": 1}


def test_what_is_in_flight_or_being_written_is_no_stray(
    database: Database, process: WorkerProcess, shards: int
) -> None:
    """After a claim whose answer was lost only what nobody here knows of is handed back."""
    if database.is_cockroach:
        pytest.skip("needs to see who waits for a lock")
    rows.add_executions(database, 3, shards=shards)
    attempts = Attempts(process)
    writing, waiting, in_flight = (attempts.next() for _ in range(3))
    for attempt in (writing, waiting, in_flight):
        attempt.enter(Stage.STARTED)
    with database.engine.begin() as other:
        lock = text("SELECT 1 FROM executions WHERE execution_id = :id FOR UPDATE")
        other.execute(lock, {"id": writing.claim.execution_id})
        writing.conclude(OK)
        eventually(lambda: rows.is_a_lock_waited_for(database), what="the finalizer at work")
        waiting.conclude(OK)
        rows.add_executions(database, 1, shards=shards)
        attempts.consumer.after_lost_answer()
        late = attempts.next()
    late.enter(Stage.STARTED)
    for attempt in (in_flight, late):
        attempt.conclude(OK)
    assert process.finalizer.flush(60)
    assert process.values.total(STRAYS) == 0
    assert rows.statuses(database) == {"SUCCESS": 4}
    assert process.values.total(STALE) == 0


def test_a_draining_process_claims_nothing(process: WorkerProcess, shards: int) -> None:
    rows.add_executions(process.database, 1, shards=shards)
    consumer = ClaimConsumer(process, "http", 10)
    process.drain()
    assert next(consumer) is None
    assert rows.statuses(process.database) == {"QUEUED": 1}


@pytest.mark.parametrize(("repeat_seconds", "passed_on"), [(3600.0, 1), (0.0, 2)])
def test_term_stops_claiming_at_once_and_its_repeat_is_swallowed(
    process: WorkerProcess, repeat_seconds: float, passed_on: int
) -> None:
    """Dramatiq itself notices it within a second; until then nothing more may be claimed."""
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: seen.append(number))
    try:
        middleware.install_term_handler(process, repeat_seconds)
        assert not process.draining.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert process.draining.is_set()
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert len(seen) == passed_on


def test_what_is_handed_back_is_claimed_again_from_its_place(
    process: WorkerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is behind all marks, and no full scan comes. A release that is not noted leaves no event."""
    monkeypatch.setattr(discovery, "SCAN_SECONDS", 7200.0)
    (waits,) = rows.add_executions(process.database, due_in=timedelta(hours=-1))
    before, attempts = rows.execution(process.database, waits), Attempts(process)
    for is_noted in (True, False, False):
        attempt = attempts.next()
        assert (attempt.claim.execution_id, attempt.claim.attempt) == (waits, 1)
        attempt.release(is_noted=is_noted)
    last = attempts.next()
    assert rows.execution(process.database, waits).run_at == before.run_at
    last.conclude(OK)
    events = process.database.fetch(text("SELECT reason FROM execution_events ORDER BY occurred_at"))
    assert [event.reason for event in events] == ["CLAIMED", "HANDED_BACK"]


def test_a_new_consumer_hands_back_what_a_dead_one_may_have_claimed(process: WorkerProcess) -> None:
    """The dead one could not read the answer: its rows are ours, and nobody here knows of them."""
    (stray,) = rows.add_executions(process.database, 1)
    take(process.database, process.worker_id, 1)
    attempt = Attempts(process).next()
    assert (attempt.claim.execution_id, attempt.claim.attempt) == (stray, 1)
    attempt.enter(Stage.STARTED)
    attempt.conclude(OK)
