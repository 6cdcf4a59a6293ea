"""One failing endpoint does not open the breaker while other endpoints of its target succeed."""

import pytest
from sqlalchemy import text

from actors.deliver import Deliveries
from actors.loop import DeliveryLoop
from app.dev.receiver import Receiver
from app.kernel.db import Database
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.broker.delivering import Attempts, catalog_of
from tests.contract.features.breakers.breaking import LIMIT, NewWorker, Worker, reasons, row, set_past, sync_all
from tests.waiting import eventually


@pytest.fixture
def shared(new_worker: NewWorker) -> list[Worker]:
    """Three processes; each delivers to the same host for the endpoints `bad` and `good`."""
    workers = [new_worker() for _ in range(3)]
    for worker in workers:
        for endpoint in ("bad", "good"):
            worker.bind(endpoint)
    return workers


def test_one_endpoint_that_fails_in_all_processes_does_not_open_the_breaker(
    database: Database, shared: list[Worker]
) -> None:
    shared[0].fail(1, "bad")
    sync_all(shared)
    shared[2].succeed(1, "good")
    sync_all(shared)
    for worker in shared:
        worker.fail(20, "bad")
    sync_all(shared)
    assert row(database).state == "closed"
    assert [worker.capacity("good") for worker in shared] == [LIMIT] * 3

    shared[1].fail(2, "good")
    sync_all(shared)
    found = row(database)
    assert (found.state, found.failed, found.results) == ("open", 63, 64), "both endpoints fail now"


def test_success_of_a_probe_keeps_the_breaker_closed_while_another_endpoint_fails(
    database: Database, shared: list[Worker]
) -> None:
    """The success counts at once, before any other process has a result."""
    for worker in shared:
        worker.fail(4, "bad")
    sync_all(shared)
    assert row(database).state == "open"
    set_past(database, "open_until")
    attempt, prober = object(), shared[1]
    prober.read_states()
    assert prober.probe(attempt, "good")
    prober.target.probed(attempt, failed=False)
    prober.sync()
    for worker in shared:
        worker.read_states()
        worker.fail(30, "bad")
        worker.sync()
    assert row(database).state == "closed"
    assert prober.capacity("good") == LIMIT
    assert reasons(database) == ["FAILURES", "PROBE", "PROBE_SUCCEEDED"]


def test_deliveries_are_counted_by_endpoint(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    """All executions of a failing endpoint are sent, because another endpoint of the target succeeds."""
    name = f"http:127.0.0.1:{receiver.base_url.rpartition(':')[2]}"
    for endpoint, path in (("bad", "/status/500"), ("good", "/ok/good")):
        rows.add_endpoint(database, endpoint, spec={"url": receiver.url(path), "method": "POST", "timeout_ms": 5000})
    deliveries, attempts = Deliveries(catalog_of(database), loop, database, process), Attempts(process)
    for endpoint, count in (("good", 1), ("bad", 15), ("bad", 15)):
        rows.add_executions(database, count, endpoint=endpoint, max_attempts=1)
        deliveries.start([attempts.next() for _ in range(count)])
    counted = text(
        "SELECT endpoint, CAST(sum(ok) AS BIGINT), CAST(sum(failed) AS BIGINT) FROM breaker_counts GROUP BY 1"
    )
    expected = {("bad", 0, 30), ("good", 1, 0)}
    eventually(lambda: {tuple(found) for found in database.fetch(counted)} == expected, what=f"{expected}")
    eventually(lambda: rows.statuses(database) == {"FAILED": 30, "SUCCESS": 1}, what="the results of all executions")
    assert row(database, name).state == "closed"
