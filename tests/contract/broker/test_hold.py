"""Executions claimed ahead of their due time are prepared at once, and wait on the delivery loop."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

import dramatiq
import pytest
from dramatiq import Worker
from sqlalchemy import text

import tests.worker_environment  # noqa: F401 - first
from actors.deliver import Deliveries
from actors.dispatch import open_dispatchers
from actors.loop import DeliveryLoop
from app.catalog.loader import Catalog
from app.dev.receiver import Receiver
from app.kernel import db
from app.kernel.config import Settings
from app.kernel.db import Database
from app.queue.executions.execution_cancellation import CancellationCounts, IfRunning, cancel_execution
from app.queue.jobs.job_pause import pause_job
from brokers.attempt import Attempt
from brokers.broker import ExecutionsBroker
from brokers.consumer import DELIVER
from brokers.middleware import Lifecycle
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.conftest import worker_process
from tests.cron_jobs import add_cron_job
from tests.waiting import eventually

FAR = timedelta(seconds=60)
FAR_AHEAD_MS = 120_000  # executions due in `FAR` are claimed at once
Actor = Callable[[Sequence[Attempt]], None]


class Running:
    """A worker as `actors` builds it, and a semaphore that counts the attempts its actor has received.

    The actor waits for `may_take` before it starts its attempts. The worker stops at the end of the test.
    """

    def __init__(self, database_url: str, shards: int) -> None:
        self._url, self._shards = database_url, shards
        self.taken = threading.Semaphore(0)
        self.may_take = threading.Event()
        self.may_take.set()
        self.worker: Worker | None = None

    def start(self, ahead_ms: int, **changes: object) -> WorkerProcess:
        database, lease = (db.connect(self._url, pool_size=size, application_name="te-test") for size in (5, 1))
        process = worker_process(
            database,
            lease,
            **({"shards": self._shards, "claim_ahead_ms": ahead_ms, "shutdown_timeout_seconds": 60.0} | changes),
        )
        loop = DeliveryLoop(lambda: open_dispatchers(Settings(database_url="")))
        process.on_drain(loop.drain)
        process.on_end(loop.stop)
        catalog = Catalog(database, None, config_ttl_seconds=60, secret_ttl_seconds=60)
        deliveries = Deliveries(catalog, loop, database, process)

        def actor(attempts: Sequence[Attempt]) -> None:
            self.may_take.wait()
            deliveries.start(attempts)
            for _ in attempts:
                self.taken.release()

        broker = ExecutionsBroker(process, [Lifecycle(process, [loop])])
        dramatiq.Actor(actor, broker=broker, actor_name=DELIVER, queue_name="http", priority=0, options={})
        self.worker = Worker(broker, worker_threads=2, worker_timeout=100)
        self.worker.start()
        return process

    def wait_until_taken(self, count: int) -> None:
        for _ in range(count):
            assert self.taken.acquire(timeout=60)

    def stop(self) -> None:
        worker, self.worker = self.worker, None
        if worker is not None:
            worker.stop()

    def stop_in_thread(self) -> threading.Thread:
        thread = threading.Thread(target=self.stop)
        thread.start()
        return thread


@pytest.fixture
def running(database_url: str, shards: int) -> Iterator[Running]:
    running = Running(database_url, shards)
    yield running
    running.may_take.set()
    running.stop()


@pytest.fixture
def path(database: Database, receiver: Receiver, request: pytest.FixtureRequest) -> str:
    """Path of a target that answers at once; the endpoint `quick` sends to the path."""
    path = f"/ok/{request.node.name}"
    rows.add_endpoint(database, "quick", spec={"url": receiver.url(path), "method": "POST"})
    return path


def sent(receiver: Receiver, path: str) -> int:
    return sum(request.path == path for request in receiver.requests)


def attempt_counts(database: Database) -> set[int]:
    return {row.attempt_count for row in database.fetch(text("SELECT attempt_count FROM executions"))}


def test_nothing_starts_before_its_instant(database: Database, running: Running, path: str, shards: int) -> None:
    for step in range(10):
        rows.add_executions(
            database, 1, endpoint="quick", due_in=timedelta(milliseconds=300 + 20 * step), shards=shards
        )
    running.start(ahead_ms=FAR_AHEAD_MS)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 10})
    assert database.fetch(text("SELECT execution_id FROM executions WHERE started_at < run_at")) == []


def test_unpreparable_execution_fails_at_its_due_time(database: Database, running: Running, shards: int) -> None:
    rows.add_endpoint(database, "odd", spec={"url": "http://h/{{input.missing}}", "method": "POST"})
    (execution_id,) = rows.add_executions(database, endpoint="odd", due_in=timedelta(milliseconds=500), shards=shards)
    running.start(ahead_ms=FAR_AHEAD_MS)
    eventually(lambda: rows.statuses(database) == {"FAILED": 1})
    (tried,) = rows.attempts(database, execution_id)
    assert tried.error["type"] == "TEMPLATE_RESOLUTION_FAILED"
    assert tried.started_at >= rows.execution(database, execution_id).run_at


def test_stop_releases_deliveries_not_yet_due_and_waits_for_sent_deliveries(
    database: Database, running: Running, receiver: Receiver, path: str, shards: int
) -> None:
    rows.add_endpoint(database, "slow", spec={"url": receiver.url(f"/held{path}"), "method": "POST"})
    rows.add_executions(database, 5, endpoint="quick", due_in=FAR, shards=shards)
    (running_id,) = rows.add_executions(database, endpoint="slow", shards=shards)
    running.start(ahead_ms=FAR_AHEAD_MS)
    running.wait_until_taken(6)
    receiver.wait_for(1, path=f"/held{path}")
    stopper = running.stop_in_thread()
    eventually(lambda: rows.statuses(database) == {"QUEUED": 5, "RUNNING": 1})
    assert stopper.is_alive(), "the stop waits for the answer of the sent delivery"
    with database.engine.begin() as locking:
        lock = text("SELECT 1 FROM executions WHERE execution_id = :id FOR UPDATE")
        locking.execute(lock, {"id": running_id})
        receiver.release(f"/held{path}")
        stopper.join(timeout=1)
        assert stopper.is_alive(), "the stop waits until the result is written"
    stopper.join(timeout=60)
    assert rows.execution(database, running_id).status == "SUCCESS"
    assert attempt_counts(database) == {0, 1}
    assert sent(receiver, path) == 0
    (worker_row,) = database.fetch(text("SELECT status FROM workers"))
    assert worker_row.status == "DEAD"


def test_delivery_that_an_actor_starts_while_the_worker_stops_is_released(
    database: Database, running: Running, receiver: Receiver, path: str, shards: int
) -> None:
    rows.add_executions(database, 3, endpoint="quick", due_in=FAR, shards=shards)
    running.may_take.clear()
    process = running.start(ahead_ms=FAR_AHEAD_MS)
    eventually(lambda: rows.statuses(database) == {"RUNNING": 3})
    stopper = running.stop_in_thread()
    assert process.draining.wait(60)
    running.may_take.set()
    stopper.join(timeout=60)
    assert not stopper.is_alive()
    assert rows.statuses(database) == {"QUEUED": 3}
    assert (attempt_counts(database), sent(receiver, path)) == ({0}, 0)


def test_claim_lost_before_its_due_time_is_not_sent(
    database: Database, running: Running, receiver: Receiver, path: str, shards: int
) -> None:
    """Another worker may be sending the same execution by now."""
    (execution_id,) = rows.add_executions(database, endpoint="quick", due_in=timedelta(seconds=2), shards=shards)
    process = running.start(ahead_ms=FAR_AHEAD_MS)
    running.wait_until_taken(1)
    process.draining.set()  # otherwise the process claims the released execution again
    (claim,) = process.shares.claims()
    process.shares.remove(claim)
    eventually(lambda: rows.execution(database, execution_id).status != "RUNNING")
    running.stop()
    row = rows.execution(database, execution_id)
    assert (row.status, row.attempt_count, sent(receiver, path)) == ("QUEUED", 0, 0)


@pytest.mark.parametrize("stops", [True, False], ids=["the worker stops", "the worker continues"])
def test_cancel_request_for_a_claimed_delivery_takes_effect_only_if_the_worker_stops(
    database: Database, running: Running, receiver: Receiver, path: str, shards: int, stops: bool
) -> None:
    """The execution is RUNNING: a sent attempt decides its result, and an unsent attempt ends as CANCELLED."""
    due_in = FAR if stops else timedelta(seconds=2)
    (execution_id,) = rows.add_executions(database, endpoint="quick", due_in=due_in, shards=shards)
    running.start(ahead_ms=FAR_AHEAD_MS)
    running.wait_until_taken(1)
    assert cancel_execution(database, execution_id, if_running=IfRunning.REQUEST, actor=None) == CancellationCounts(
        ended=0, asked=1
    )
    if stops:
        running.stop()
    eventually(lambda: rows.execution(database, execution_id).status != "RUNNING")
    expected = ("CANCELLED", 0) if stops else ("SUCCESS", 1)
    assert (rows.execution(database, execution_id).status, sent(receiver, path)) == expected


def test_pause_of_a_job_does_not_stop_its_claimed_delivery(
    database: Database, running: Running, receiver: Receiver, path: str, shards: int
) -> None:
    job_id = add_cron_job(database)
    execution_id = rows.add_tick(database, job_id, due_in=timedelta(seconds=2))
    database.fetch(text("UPDATE executions SET endpoint = 'quick', max_attempts = 1"))
    running.start(ahead_ms=FAR_AHEAD_MS)
    running.wait_until_taken(1)
    pause_job(database, job_id)
    eventually(lambda: rows.execution(database, execution_id).status == "SUCCESS")
    assert sent(receiver, path) == 1


def test_unsent_delivery_is_released_before_the_process_is_dead(
    database: Database, running: Running, receiver: Receiver, path: str, shards: int
) -> None:
    """After the shutdown timeout a delivery that still connects must not send: another worker may have claimed it."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as stack:
        # A full backlog: further connections neither fail nor succeed.
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}/"
        rows.add_endpoint(database, "connecting", spec={"url": url, "method": "POST", "timeout_ms": 60_000})
        rows.add_endpoint(database, "slow", spec={"url": receiver.url(f"/held{path}"), "method": "POST"})
        (unsent,) = rows.add_executions(database, endpoint="connecting", shards=shards)
        (sent_id,) = rows.add_executions(database, endpoint="slow", shards=shards)
        running.start(ahead_ms=FAR_AHEAD_MS, shutdown_timeout_seconds=0.2)
        running.wait_until_taken(2)
        receiver.wait_for(1, path=f"/held{path}")
        running.stop()
    assert [row.status for row in database.fetch(text("SELECT status FROM workers"))] == ["DEAD"]
    row = rows.execution(database, unsent)
    assert (row.status, row.attempt_count) == ("QUEUED", 0)
    assert rows.execution(database, sent_id).status == "RUNNING"  # it may have been delivered: a scheduler reclaims it
