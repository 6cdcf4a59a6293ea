"""One endpoint that fails at a target where others succeed keeps the breaker closed for all."""

import pytest
from sqlalchemy import text

from actors.deliver import Deliveries
from actors.loop import DeliveryLoop
from app.dev.receiver import Receiver
from app.kernel.db import Database
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.broker.delivering import Attempts, catalog_of
from tests.contract.features.breakers.breaking import LIMIT, NewWorker, Worker, beat, reasons, row, set_past
from tests.waiting import eventually


@pytest.fixture
def shared(new_worker: NewWorker) -> list[Worker]:
    """Three processes, each of which sends for two endpoints to the same host."""
    workers = [new_worker() for _ in range(3)]
    for worker in workers:
        for endpoint in ("bad", "good"):
            worker.bind(endpoint)
    return workers


def test_one_endpoint_that_fails_in_all_processes_keeps_nobody_else_waiting(
    database: Database, shared: list[Worker]
) -> None:
    shared[0].fail(1, "bad")
    beat(shared)
    shared[2].succeed(1, "good")
    beat(shared)
    for worker in shared:
        worker.fail(20, "bad")
    beat(shared)
    assert row(database).state == "closed"
    assert [worker.room("good") for worker in shared] == [LIMIT] * 3

    shared[1].fail(2, "good")
    beat(shared)
    found = row(database)
    assert (found.state, found.failed, found.results) == ("open", 63, 64), "now it fails for all"


def test_the_success_of_a_probe_keeps_it_closed_for_the_others(database: Database, shared: list[Worker]) -> None:
    """It counts at once, before any other process sends anything."""
    for worker in shared:
        worker.fail(4, "bad")
    beat(shared)
    assert row(database).state == "open"
    set_past(database, "open_until")
    attempt, prober = object(), shared[1]
    prober.learn()
    assert prober.probe(attempt, "good")
    prober.target.probed(attempt, failed=False)
    prober.beat()
    for worker in shared:
        worker.learn()
        worker.fail(30, "bad")
        worker.beat()
    assert row(database).state == "closed"
    assert prober.room("good") == LIMIT
    assert reasons(database) == ["FAILURES", "PROBE", "PROBE_SUCCEEDED"]


def test_deliveries_are_counted_by_endpoint(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    """All executions of an endpoint that always fails are sent, because another works there."""
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
