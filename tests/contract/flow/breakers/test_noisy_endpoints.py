"""Endpoints that fail at a target at which all others work: they shut nobody out, and a target that is down opens."""

import pytest
from sqlalchemy import text

import brokers.target_state
from actors.deliver import Deliveries
from actors.loop import DeliveryLoop
from app.dev.receiver import Receiver
from app.kernel.db import Database
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.broker.delivering import Attempts, catalog_of
from tests.contract.flow.breakers.breaking import LIMIT, NewWorker, Worker, beat, failed_before, reasons, row
from tests.waiting import eventually


@pytest.fixture
def shared(new_worker: NewWorker) -> list[Worker]:
    """Three processes, each of which sends for two endpoints to the same host."""
    workers = [new_worker() for _ in range(3)]
    for worker in workers:
        for endpoint in ("bad", "good"):
            worker.bind(endpoint)
    return workers


def shut_by_the_first(database: Database, shared: list[Worker]) -> None:
    """Let an endpoint fail before any other has a result."""
    for worker in shared:
        worker.fail(4, "bad")
    beat(shared)
    assert row(database).state == "open"


def probe(database: Database, shared: list[Worker], endpoint: str) -> Worker:
    """Let an endpoint prove that the target works for it; nobody but the prober has been told."""
    database.fetch(text("UPDATE breakers SET open_until = now() RETURNING 1"))
    for worker in shared:
        worker.learn()
        worker.room(endpoint)
    beat(shared)
    (prober,) = [worker for worker in shared if worker.room(endpoint) == 1]
    attempt = object()
    assert prober.target.take_probe(attempt, endpoint)
    prober.target.probed(attempt, failed=False)
    prober.beat()
    assert row(database).state == "closed"
    return prober


def test_one_endpoint_that_fails_in_all_processes_shuts_no_other_out(database: Database, shared: list[Worker]) -> None:
    failed_before(database)
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


def test_the_probe_is_left_to_others_and_what_it_proves_counts(
    database: Database, shared: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers.target_state, "YIELD_SECONDS", 3600.0)
    shut_by_the_first(database, shared)
    database.fetch(text("UPDATE breakers SET open_until = now() RETURNING 1"))
    beat(shared)
    assert [worker.room("bad") for worker in shared] == [0] * 3
    beat(shared)
    assert row(database).state == "open", "it is not even asked for"
    prober = probe(database, shared, "good")
    # At once, before the prober tells anything else.
    for worker in sorted(shared, key=lambda worker: worker is prober):
        worker.learn()
        worker.fail(30, "bad")
        worker.breakers.act()
    assert row(database).state == "closed"
    assert prober.room("good") == LIMIT
    assert reasons(database) == ["FAILURES", "PROBE", "PROBE_SUCCEEDED"]


def test_who_proves_that_it_works_for_itself_proves_nothing_for_others(
    database: Database, shared: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else has something due, so it may probe, and shuts it again as quickly as at first."""
    monkeypatch.setattr(brokers.target_state, "YIELD_SECONDS", 0.0)
    shut_by_the_first(database, shared)
    prober = probe(database, shared, "bad")
    beat(shared)
    prober.fail(9, "bad")
    beat(shared)
    assert row(database).state == "closed"
    prober.fail(1, "bad")
    prober.beat()
    assert row(database).state == "open"


def test_the_rows_of_a_process_add_up_whichever_endpoint_is_noisiest(database: Database, new_worker: NewWorker) -> None:
    worker = new_worker()
    counted = text("SELECT CAST(sum(ok) AS BIGINT), CAST(sum(failed) AS BIGINT) FROM breaker_counts")
    failed = 0
    for number in range(1, 10):
        name = f"endpoint-{number}"
        worker.succeed(3 * number + 100, name)
        worker.fail(number, name)
        failed += number
        worker.beat()
        assert tuple(database.fetch(counted)[0]) == (sum(3 * n + 100 for n in range(1, number + 1)), failed)
    names = text("SELECT worker_id FROM breaker_counts WHERE failed > 0 ORDER BY 1")
    told = {found.worker_id for found in database.fetch(names)}
    assert told >= {"wrk_0", "wrk_0/endpoint-9"}


def test_what_a_worker_delivers_is_counted_by_endpoint(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    """Of one that always fails all is sent, because another works there."""
    name = f"http:127.0.0.1:{receiver.base_url.rpartition(':')[2]}"
    for endpoint, path in (("bad", "/status/500"), ("good", "/ok/good")):
        rows.add_endpoint(database, endpoint, spec={"url": receiver.url(path), "method": "POST", "timeout_ms": 5000})
    failed_before(database, target=name)
    deliveries, attempts = Deliveries(catalog_of(database), loop, database, process.targets), Attempts(process)
    counted = text("SELECT CAST(sum(ok + failed) AS BIGINT) AS n FROM breaker_counts")
    sent = 1
    for endpoint, count in (("good", 1), ("bad", 15), ("bad", 15)):
        rows.add_executions(database, count, endpoint=endpoint, max_attempts=1)
        deliveries.start([attempts.next() for _ in range(count)])
        sent += count
        # What the counts of a round led to is decided before those of the next are told.
        eventually(lambda: database.fetch(counted)[0].n == sent, what=f"{sent} results")  # noqa: B023 - at once
    assert rows.statuses(database) == {"FAILED": 30, "SUCCESS": 1}
    assert row(database, name).state == "closed"
    told = {found.worker_id for found in database.fetch(text("SELECT worker_id FROM breaker_counts"))}
    assert told == {"wrk_gone/bad", f"{process.worker_id}/bad", f"{process.worker_id}/good"}
