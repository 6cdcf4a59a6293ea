"""Wake-ups and late commits at a consumer over a real database."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from app.kernel import db
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.metrics.series import WAKEUPS_DROPPED
from app.kernel.wakeup import digest_of, encode
from brokers.attempt import Attempt
from brokers.consumer import ClaimConsumer
from brokers.discovery import DiscoveryTimes
from brokers.inbox import PostgresSource, WakeupListener
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.claiming import TARGET
from tests.contract.broker.delivering import OK, Attempts, attempts_of
from tests.forged_wakeups import FORGED
from tests.waiting import eventually

NO_SCAN = DiscoveryTimes(scan_seconds=7200.0)  # after the first one


def hint(run_at_ms: int) -> str:
    return encode({"http": {digest_of(*TARGET): run_at_ms}})


def commit_late(database: Database, execution_id: str, *, seconds: float = 7.0) -> None:
    """Make an execution due now in a transaction that commits after `seconds`: beyond the slack of all watermarks."""
    with database.engine.begin() as late:
        move = text("UPDATE executions SET run_at = now() WHERE execution_id = :id")
        late.execute(move, {"id": execution_id})
        late.execute(text("SELECT pg_sleep(:seconds)"), {"seconds": seconds})


def now_ms(database: Database) -> int:
    return (rows.database_now(database) - EPOCH) // timedelta(milliseconds=1)


def test_recent_partition_is_claimed_without_a_poll(process: WorkerProcess) -> None:
    """A steady endpoint pays for no statement but the claim. The due poll is delayed by one claim only."""
    rows.add_executions(process.database)
    consumer = ClaimConsumer(process, "http", 100)
    (first,) = attempts_of(next(consumer))
    first.complete(OK)
    assert next(consumer) is None
    rows.add_executions(process.database)
    process.inboxes.wake("http")
    process.inboxes.hear(hint(now_ms(process.database)))
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
    process.inboxes.hear(hint(now_ms(process.database) - 3_600_000))
    assert attempts.next().claim.execution_id == late


@pytest.mark.postgresql_only
def test_late_commit_is_found_without_a_wake_up(process: WorkerProcess) -> None:
    attempts = Attempts(process, times=NO_SCAN)
    rows.add_executions(process.database)
    attempts.next().complete(OK)
    (late,) = rows.add_executions(process.database, due_in=timedelta(hours=1))
    received: list[Attempt] = []
    thread = attempts.next_in_thread(received)  # the watermark follows the clock while the transaction is open
    commit_late(process.database, late)
    thread.join(60)
    assert [attempt.claim.execution_id for attempt in received] == [late]


def test_forged_wake_ups_neither_raise_nor_stop_the_consumer(process: WorkerProcess) -> None:
    attempts = Attempts(process, times=NO_SCAN)
    rows.add_executions(process.database)
    attempts.next().complete(OK)
    forged = [*FORGED, hint(0), hint(10**13 - 1), encode({"http": {"f" * 16: 0}}), "unknown-queue"]
    for payload in forged * 5:
        process.inboxes.hear(payload)
    (real,) = rows.add_executions(process.database)
    process.inboxes.hear("http")
    assert attempts.next().claim.execution_id == real
    dropped = process.values.total(WAKEUPS_DROPPED)
    assert dropped >= len(FORGED) * 5 + 5


@pytest.mark.postgresql_only
def test_login_without_rights_cannot_stop_a_consumer(process: WorkerProcess, database_url: str) -> None:
    """NOTIFY needs no privilege."""
    source = PostgresSource(db.connect(database_url, pool_size=1, application_name="te-test-listener"))
    listener = WakeupListener(process.inboxes, source)
    listener.start()
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
    assert attempts.next().claim.execution_id == real
    assert listener.stop(60)
