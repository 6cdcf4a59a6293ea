"""Deliveries aborted on request, over each transport.

The attempt of a sent delivery ends as ABORTED. A delivery that was not sent yet leaves no attempt.
"""

import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import dramatiq
import pytest
from dramatiq import Worker
from sqlalchemy import text

import tests.worker_environment  # noqa: F401 - first
from actors import build
from actors.deliver import Deliveries
from actors.dispatch import open_dispatchers
from actors.loop import DeliveryLoop
from app.kernel.config import Settings
from app.kernel.db import Database
from app.queue.executions.execution_cancellation import IfRunning, cancel_execution
from app.queue.jobs.job_cancellation import cancel_job
from brokers.attempt import Attempt
from brokers.consumer import DELIVER
from brokers.worker_process import WorkerProcess
from schema.states import EndpointType
from tests import rows
from tests.contract.broker.delivering import Attempts, catalog_of, claimed
from tests.contract.broker.silence import TYPES, add_execution
from tests.contract.dispatch.kafka.hostile import HostileKafka
from tests.waiting import eventually

HTTP = EndpointType.HTTP


@pytest.fixture
def loop() -> Iterator[DeliveryLoop]:
    """The real dispatchers, with one connection to each host."""
    loop = DeliveryLoop(lambda: open_dispatchers(Settings(database_url="", connections_per_host=1)))
    loop.start()
    yield loop
    loop.stop()


def abort(database: Database, loop: DeliveryLoop, attempt: Attempt) -> None:
    """Request an abort, and pass it to the loop as a worker does.

    A worker passes the request at each poll until the row is written, hence the two calls.
    """
    cancel_execution(database, attempt.claim.execution_id, if_running=IfRunning.ABORT, actor="ops")
    for _ in range(2):
        loop.abort([attempt.claim.key])


def ended(database: Database, execution_id: str) -> tuple[str, list[Any]]:
    eventually(lambda: rows.execution(database, execution_id).status != "RUNNING")
    return rows.execution(database, execution_id).status, rows.attempts(database, execution_id)


def is_closed(connection: socket.socket) -> bool:
    while connection.recv(65_536):
        pass
    return True


@pytest.mark.parametrize("type_", sorted(set(TYPES) - {EndpointType.KAFKA}))
def test_aborted_sent_delivery_is_cancelled_and_may_have_been_delivered(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, silent: socket.socket, type_: EndpointType
) -> None:
    execution_id = add_execution(database, type_, silent)
    attempt = claimed(process, type_.queue)
    Deliveries(catalog_of(database), loop, database, process).start([attempt])
    connection, _ = silent.accept()
    connection.settimeout(60)
    assert connection.recv(1)
    eventually(lambda: attempt.is_sent)
    abort(database, loop, attempt)
    status, (tried,) = ended(database, execution_id)
    assert (status, tried.error["type"], tried.error["may_have_been_delivered"]) == ("CANCELLED", "ABORTED", True)
    (line,) = database.fetch(text("SELECT message FROM execution_logs"))
    assert line.message == "attempt 1 of 3 aborted on request, before an answer came"
    assert is_closed(connection)
    connection.close()


def test_aborted_record_that_a_producer_has_accepted_may_have_been_delivered(
    database: Database, process: WorkerProcess, loop: DeliveryLoop
) -> None:
    """The broker names itself and no partition, so the record waits; librdkafka cannot withdraw an accepted record."""
    with HostileKafka(b"127.0.0.1") as kafka:
        spec = {"bootstrap_servers": kafka.bootstrap, "topic": "t", "value_template": 1, "acks": "1"}
        rows.add_endpoint(database, "record", type_=EndpointType.KAFKA, spec=spec | {"timeout_ms": 250_000})
        (execution_id,) = rows.add_executions(database, endpoint="record", type_=EndpointType.KAFKA, max_attempts=3)
        attempt = claimed(process, EndpointType.KAFKA.queue)
        Deliveries(catalog_of(database), loop, database, process).start([attempt])
        eventually(lambda: attempt.is_sent)
        abort(database, loop, attempt)
        status, (tried,) = ended(database, execution_id)
        assert (status, tried.error["type"], tried.error["may_have_been_delivered"]) == ("CANCELLED", "ABORTED", True)
        loop.stop()


def test_aborted_delivery_that_waits_for_a_connection_or_its_due_time_leaves_no_attempt(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, silent: socket.socket
) -> None:
    deliveries = Deliveries(catalog_of(database), loop, database, process)
    add_execution(database, HTTP, silent)
    attempts = Attempts(process)
    first = attempts.next()
    deliveries.start([first])
    eventually(lambda: first.is_sent)
    without_connection = add_execution(database, HTTP, silent)
    not_due = add_execution(database, HTTP, silent, due_in=timedelta(milliseconds=10))
    unsent = [attempts.next(), attempts.next()]
    for attempt in unsent:
        if attempt.claim.execution_id == not_due:
            attempt.due_at += 3600
    deliveries.start(unsent)
    for attempt in unsent:
        abort(database, loop, attempt)
    for execution_id in (without_connection, not_due):
        assert ended(database, execution_id) == ("CANCELLED", [])
        assert rows.job_of(database, execution_id).status == "RETIRED"
    assert not first.is_aborted
    abort(database, loop, first)
    assert ended(database, first.claim.execution_id)[0] == "CANCELLED"


def test_worker_finds_the_abort_request_in_the_database(
    database: Database, database_url: str, silent: socket.socket
) -> None:
    broker, deliveries = build(Settings(database_url=database_url, worker_poll_interval_ms=10))
    dramatiq.actor(deliveries.start, broker=broker, actor_name=DELIVER, queue_name="http")
    worker = Worker(broker, worker_threads=2, worker_timeout=100)
    execution_id = add_execution(database, HTTP, silent)
    worker.start()
    try:
        connection, _ = silent.accept()
        with connection:
            connection.settimeout(60)
            assert connection.recv(1)
            job_id = rows.job_of(database, execution_id).job_id
            assert cancel_job(database, job_id, if_running=IfRunning.ABORT).asked == 1
            assert is_closed(connection)
        status, (tried,) = ended(database, execution_id)
        assert (status, tried.error["type"]) == ("CANCELLED", "ABORTED")
    finally:
        worker.stop()


def test_stopping_worker_leaves_a_sent_delivery_without_an_abort_request_running(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, silent: socket.socket
) -> None:
    execution_id = add_execution(database, HTTP, silent)
    attempt = claimed(process)
    Deliveries(catalog_of(database), loop, database, process).start([attempt])
    eventually(lambda: attempt.is_sent)
    loop.abort([attempt.claim.key._replace(attempt=2)])  # a request for another attempt has no effect on this attempt
    loop.stop()
    assert process.finalizer.flush(60)
    assert rows.execution(database, execution_id).status == "RUNNING"
    attempt.release(even_if_started=True)  # otherwise the process waits for the attempt when it closes
