"""Deliveries that wait for a connection to a host while all connections of the host are in use."""

import json
import threading
from collections.abc import Callable, Iterator

import dramatiq
import pytest
from dramatiq import Worker
from sqlalchemy import text

import tests.worker_environment  # noqa: F401 - first
from actors import build
from app.dev.receiver import Receiver
from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.metrics.series import RELEASED
from app.queue.claiming.release import DUE_NOW_MS
from app.queue.executions.reclaim import reclaim
from app.queue.executions.reclaim_candidates import candidates
from brokers.consumer import DELIVER
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.waiting import eventually

PER_HOST = 2
ENDPOINTS = ("held", "held-too", "held-three")
DUE_AGAIN = text(
    """
    SELECT run_at BETWEEN :before AND now() + :due_now_ms * INTERVAL '1 millisecond' AS due, attempt_count
      FROM executions WHERE status = 'QUEUED'
    """
)
SET_RATE = "UPDATE endpoints SET limits = CAST(:limits AS JSONB) WHERE name = 'a' RETURNING 1"
StartWorker = Callable[..., tuple[Worker, WorkerProcess]]


@pytest.fixture
def start(database_url: str) -> Iterator[StartWorker]:
    """Return a function that starts a worker as `actors` does; the fixture stops it at the end."""
    workers: list[Worker] = []

    def start(**changes: object) -> tuple[Worker, WorkerProcess]:
        values = {"worker_poll_interval_ms": 10, "connections_per_host": PER_HOST} | changes
        broker, deliveries = build(Settings(database_url=database_url, **values))  # type: ignore[arg-type]
        dramatiq.actor(deliveries.start, broker=broker, actor_name=DELIVER, queue_name="http")
        worker = Worker(broker, worker_threads=2, worker_timeout=100)
        worker.start()
        workers.append(worker)
        return worker, broker.process

    yield start
    for worker in workers:
        if not worker.broker.process.draining.is_set():  # type: ignore[attr-defined]
            worker.stop()


@pytest.fixture
def path(database: Database, receiver: Receiver, request: pytest.FixtureRequest) -> Iterator[str]:
    """Path of a target that holds its answers until the test releases it, and three endpoints for this target."""
    path = f"/held/{request.node.name}"
    spec = {"url": receiver.url(path), "method": "POST", "timeout_ms": 60_000}
    for name in ENDPOINTS:
        rows.add_endpoint(database, name, spec=spec)
    yield path
    receiver.release(path)


def exceed_connections(database: Database) -> list[str]:
    """Create more executions than connections, for endpoints of one host that is not resolved yet."""
    return [each for name in ENDPOINTS for each in rows.add_executions(database, PER_HOST, endpoint=name)]


def attempts_sent(receiver: Receiver, path: str) -> list[tuple[str, str]]:
    """Return execution and attempt of each request that the receiver got."""
    received = [request.headers for request in receiver.requests if request.path == path]
    return sorted((headers["Idempotency-Key"], headers["X-Task-Executor-Attempt"]) for headers in received)


def test_delivery_that_waits_too_long_for_a_connection_is_released_without_an_attempt(
    database: Database, start: StartWorker, receiver: Receiver, path: str
) -> None:
    executions = exceed_connections(database)
    start(stuck_timeout_seconds=3.0)
    receiver.wait_for(PER_HOST, path=path)
    eventually(lambda: rows.statuses(database) == {"QUEUED": 4, "RUNNING": PER_HOST})
    kept = "SELECT run_at = scheduled_at AS is_unmoved, attempt_count FROM executions WHERE status = 'QUEUED'"
    assert {(row.is_unmoved, row.attempt_count) for row in database.fetch(text(kept))} == {(True, 0)}
    receiver.release(path)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 6})
    assert attempts_sent(receiver, path) == sorted((execution, "1") for execution in executions)


def test_delivery_that_waits_for_a_connection_is_released_at_once_when_the_worker_stops(
    database: Database, start: StartWorker, receiver: Receiver, path: str
) -> None:
    exceed_connections(database)
    worker, _ = start()
    receiver.wait_for(PER_HOST, path=path)
    eventually(lambda: rows.statuses(database) == {"RUNNING": 6})
    before = rows.database_now(database)
    stopper = threading.Thread(target=worker.stop)
    stopper.start()
    eventually(lambda: rows.statuses(database) == {"QUEUED": 4, "RUNNING": PER_HOST})
    # The released executions are due from now on: other workers have claimed past their first due time.
    since = {"before": before, "due_now_ms": DUE_NOW_MS}
    assert {(row.due, row.attempt_count) for row in database.fetch(DUE_AGAIN, since)} == {(True, 0)}
    assert stopper.is_alive(), "the stop waits for deliveries in flight"
    receiver.release(path)
    stopper.join(60)
    assert rows.statuses(database) == {"QUEUED": 4, "SUCCESS": PER_HOST}
    assert len(attempts_sent(receiver, path)) == PER_HOST


def test_attempt_reclaimed_while_it_waits_for_a_connection_is_not_sent(
    database: Database, start: StartWorker, receiver: Receiver, path: str
) -> None:
    """The same process claims the execution again: only the second attempt is sent."""
    first = rows.add_executions(database, PER_HOST, endpoint="held")
    _, process = start()
    receiver.wait_for(PER_HOST, path=path)
    (waiting,) = rows.add_executions(database, 1, endpoint="held-too", max_attempts=2)
    eventually(lambda: rows.execution(database, waiting).status == "RUNNING")
    database.fetch(text("UPDATE endpoint_versions SET retry_policy = '{\"max_attempts\": 2}'"))
    # The target of this endpoint is unresolved, so the execution can be claimed without a free connection.
    database.fetch(text("UPDATE executions SET endpoint = 'held-three' WHERE execution_id = :id"), {"id": waiting})
    found = [each for each in candidates(database, stuck_ms=0, limit=10) if each.tried.execution_id == waiting]
    assert reclaim(database, found, stuck_ms=0).retrying == 1
    # The row is claimed before the process knows it.
    eventually(lambda: (waiting, 2) in {(key.execution_id, key.attempt) for key in process.shares.claims()})
    receiver.release(path)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 3})
    assert attempts_sent(receiver, path) == sorted([*((execution, "1") for execution in first), (waiting, "2")])


@pytest.mark.parametrize("is_windowed", [False, True], ids=["quick", "windowed"])
def test_claims_of_a_host_do_not_exceed_its_connections(
    database: Database, start: StartWorker, receiver: Receiver, path: str, *, is_windowed: bool
) -> None:
    """The bound covers all endpoints of a host together, once their targets are resolved.

    A quick endpoint may claim ahead. When it becomes slow, its claims ahead are released within a second. With a
    sliding window, no endpoint of the host claims ahead: a start that the window has counted would be too late.
    """
    path = f"no-more-{is_windowed}"
    url = receiver.url(f"/{{{{input.way}}}}/{path}")
    for name in ("a", "b"):
        rows.add_endpoint(database, name, spec={"url": url, "method": "POST", "timeout_ms": 60_000})
    other_host = receiver.url(f"/ok/elsewhere-{path}").replace("127.0.0.1", "localhost")
    rows.add_endpoint(database, "elsewhere", spec={"url": other_host, "method": "POST"})
    for name in ("a", "b"):
        rows.add_executions(database, 1, endpoint=name, input_={"way": "ok"})
    if is_windowed:
        rate = {"count": 1000, "per": "1h", "window": "sliding"}
        database.fetch(text(SET_RATE), {"limits": json.dumps({"rate": rate})})
    _, process = start()
    before = process.values.total(RELEASED)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 2})
    for name in ("a", "b"):
        rows.add_executions(database, 10, endpoint=name, input_={"way": "held"})
    receiver.wait_for(PER_HOST, path=f"/held/{path}")

    def running() -> int:
        found = database.fetch(text("SELECT endpoint FROM executions WHERE status = 'RUNNING'"))
        return sum(row.endpoint in ("a", "b") for row in found)

    assert running() <= (1 if is_windowed else 2) * PER_HOST
    # Until the endpoint is slow, it may claim ahead at any time.
    eventually(lambda: process.shares.others & {"a", "b"}, what="an endpoint that is no longer quick")
    eventually(lambda: running() == PER_HOST, what="the release of claims ahead")
    for count in range(1, 4):
        rows.add_executions(database, 1, endpoint="elsewhere")
        receiver.wait_for(count, path=f"/ok/elsewhere-{path}")
        assert running() == PER_HOST
    assert not is_windowed or process.values.total(RELEASED) == before
    receiver.release(f"/held/{path}")
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 25})
    assert database.fetch(text("SELECT DISTINCT attempt_count FROM executions")) == [(1,)]
    assert database.fetch(text("SELECT 1 FROM execution_events WHERE reason = 'HANDED_BACK'")) == []
