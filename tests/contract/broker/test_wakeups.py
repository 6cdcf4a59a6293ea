"""Wake-ups and late commits at a consumer over a real database."""

import threading
import time
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from app.kernel import db
from app.kernel.formats import EPOCH
from app.kernel.metrics.series import WAKEUPS_DROPPED
from app.kernel.wakeup import digest_of, encode
from brokers.attempt import Attempt
from brokers.consumer import ClaimConsumer
from brokers.discovery import DiscoveryTimes
from brokers.inbox import PostgresSource, WakeupListener
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.claiming import NEVER, TARGET
from tests.contract.broker.delivering import OK, Attempts, attempts_of
from tests.enqueueing import adopt_settings
from tests.forged_wakeups import FORGED
from tests.waiting import eventually

NO_SCAN = DiscoveryTimes(scan_pace=NEVER)  # after the first one


def hint(run_at_ms: int) -> str:
    return encode({"http": {digest_of(*TARGET): run_at_ms}})


def listening(process: WorkerProcess, database_url: str) -> WakeupListener:
    source = PostgresSource(db.connect(database_url, pool_size=1, application_name="te-test-listener"))
    listener = WakeupListener(process.inboxes, source)
    listener.start()
    return listener


def milliseconds(instant: datetime) -> int:
    return (instant - EPOCH) // timedelta(milliseconds=1)


def test_recent_partition_is_claimed_without_a_poll(process: WorkerProcess) -> None:
    """A steady endpoint pays for no statement but the claim. The due poll is delayed by one claim only."""
    rows.add_executions(process.database)
    consumer = ClaimConsumer(process, "http", 100)
    (first,) = attempts_of(next(consumer))
    first.complete(OK)
    assert next(consumer) is None
    rows.add_executions(process.database)
    process.inboxes.wake("http")
    process.inboxes.receive(hint(milliseconds(rows.database_now(process.database))))
    statements: list[str] = []
    this_thread = threading.get_ident()

    def note(*call: Any) -> None:
        if threading.get_ident() == this_thread:  # other threads of the process execute statements too
            statements.append(call[2])

    event.listen(process.database.engine, "before_cursor_execute", note)
    (attempt,) = attempts_of(next(consumer))
    assert ["FOR UPDATE SKIP LOCKED" in statement for statement in statements] == [True]
    attempt.complete(OK)


def test_execution_behind_the_watermark_is_found_by_its_wake_up(process: WorkerProcess) -> None:
    """Its transaction has lasted for an hour, as seen by the worker."""
    attempts = Attempts(process, times=NO_SCAN)
    rows.add_executions(process.database)
    attempts.next().complete(OK)
    (late,) = rows.add_executions(process.database, due_in=timedelta(hours=-1))
    process.inboxes.receive(hint(milliseconds(rows.execution(process.database, late).run_at)))
    found = attempts.next()
    assert found.claim.execution_id == late
    found.complete(OK)


@pytest.mark.postgresql_only
def test_job_of_a_long_transaction_is_claimed_after_its_commit(process: WorkerProcess, database_url: str) -> None:
    """The commit comes after the slack of the watermarks: a wake-up causes a claim at once, and otherwise a poll."""
    adopt_settings(process.database)
    listener = listening(process, database_url)
    woken, polling = Attempts(process, times=NO_SCAN), Attempts(process, "unheard")
    process.inboxes.open("unheard")  # in place of the inbox of the consumer, which receives no wake-up any longer
    received: list[Attempt] = []
    with process.database.engine.begin() as client:
        client.execute(text("SELECT te_enqueue('target'), te_enqueue('target', queue => 'unheard')"))
        threads = [attempts.next_in_thread(received) for attempts in (woken, polling)]
        client.execute(text("SELECT pg_sleep(6)"))
    committed = time.monotonic()
    for thread, name in zip(threads, ("wake-up", "poll"), strict=True):
        thread.join(60)
        print(f"claimed after the commit by {name}: {(time.monotonic() - committed) * 1000:.0f} ms")
    assert len(received) == 2
    for attempt in received:
        attempt.complete(OK)
    assert listener.stop(60)


def test_forged_wake_ups_neither_raise_nor_stop_the_consumer(process: WorkerProcess) -> None:
    attempts = Attempts(process, times=NO_SCAN)
    rows.add_executions(process.database)
    attempts.next().complete(OK)
    forged = [*FORGED, hint(0), hint(10**13 - 1), encode({"http": {"f" * 16: 0}}), "unknown-queue"]
    for payload in forged * 5:
        process.inboxes.receive(payload)
    (real,) = rows.add_executions(process.database)
    process.inboxes.receive("http")
    found = attempts.next()
    assert found.claim.execution_id == real
    found.complete(OK)
    dropped = process.values.total(WAKEUPS_DROPPED)
    assert dropped >= len(FORGED) * 5 + 5


@pytest.mark.postgresql_only
def test_login_without_rights_cannot_stop_a_consumer(process: WorkerProcess, database_url: str) -> None:
    """NOTIFY needs no privilege."""
    listener = listening(process, database_url)
    attempts = Attempts(process, times=NO_SCAN)
    rows.add_executions(process.database)
    attempts.next().complete(OK)
    notify = text("SELECT pg_notify('te_wakeup', :payload)")
    payload = "http\t0\ttarget\t\t99999999999999999999999"

    def is_dropped() -> bool:
        process.database.fetch(notify, {"payload": payload})
        return process.values.total(WAKEUPS_DROPPED) > 0

    eventually(is_dropped)
    (real,) = rows.add_executions(process.database)
    found = attempts.next()
    assert found.claim.execution_id == real
    found.complete(OK)
    assert listener.stop(60)
