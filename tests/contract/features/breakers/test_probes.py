"""Probes of open breakers: exactly one worker process sends a probe, and its result closes or opens the breaker."""

from datetime import timedelta

import pytest

from app.features.breakers.rules import PROBE_SLACK_MS
from app.kernel.db import Database
from tests.contract.features.breakers.breaking import (
    LIMIT,
    TIMEOUT_MS,
    NewWorker,
    Worker,
    half_open,
    open_breaker,
    reasons,
    row,
    set_past,
    sync_all,
)


def test_one_process_probes_and_its_success_closes_the_breaker_for_all(database: Database, three: list[Worker]) -> None:
    open_breaker(database, three)
    first, second = object(), object()
    prober = half_open(database, three, first)
    assert row(database).probe_worker == prober.worker_id
    assert not prober.probe(second)
    assert (prober.target.lets(first), prober.target.lets(second)) == (True, False)
    sync_all(three)
    assert [worker.capacity() for worker in three] == [0] * 3
    assert row(database).state == "half_open", "no result yet"

    prober.target.probed(second, failed=False)  # was already in flight when the breaker opened
    prober.target.probed(first, failed=False)
    prober.target.probed(first, None)  # the first outcome counts
    sync_all(three)
    assert [worker.capacity() for worker in three] == [LIMIT] * 3
    found = row(database)
    assert (found.state, found.failed, found.open_until) == ("closed", None, None)
    assert reasons(database) == ["FAILURES", "PROBE", "PROBE_SUCCEEDED"]
    # Failures before the probe no longer count; the success of the probe counts.
    three[1].fail(8)
    sync_all(three)
    assert row(database).state == "closed"


def test_failed_probe_opens_the_breaker_again(database: Database, three: list[Worker]) -> None:
    open_breaker(database, three)
    attempt = object()
    prober = half_open(database, three, attempt)
    prober.fail()
    prober.target.probed(attempt, failed=True)
    sync_all(three)
    found = row(database)
    assert found.state == "open"
    assert found.open_until - found.changed_at == timedelta(seconds=30)
    assert [worker.capacity() for worker in three] == [0] * 3


def test_probe_with_retry_after_opens_the_breaker_for_its_duration(database: Database, three: list[Worker]) -> None:
    open_breaker(database, three)
    attempt = object()
    prober = half_open(database, three, attempt)
    prober.fail(retry_after_ms=3_600_000)
    prober.target.probed(attempt, failed=True)
    sync_all(three)
    found = row(database)
    assert (found.state, found.reason) == ("open", "PROBE_FAILED")
    assert found.open_until - found.changed_at > timedelta(seconds=3590)


def test_unused_probe_is_left_to_other_processes(database: Database, three: list[Worker]) -> None:
    """A claimed probe may be released before its first byte is sent."""
    open_breaker(database, three)
    attempt = object()
    prober = half_open(database, three, attempt)
    prober.target.probed(attempt, None)
    sync_all(three)
    found = row(database)
    assert (found.state, found.reason) == ("open", "PROBE_UNUSED")
    for worker in three:
        worker.target.try_at *= worker is prober  # a second has passed
    assert [worker.capacity() for worker in three] == [int(worker is not prober) for worker in three]


def test_process_claims_one_execution_at_a_time_for_a_probe(database: Database, three: list[Worker]) -> None:
    open_breaker(database, three)
    set_past(database, "open_until")
    sync_all(three)
    worker = three[0]
    worker.bind("other")
    assert [worker.capacity(endpoint) for endpoint in ("endpoint", "endpoint", "other")] == [1, 0, 0]


def test_deliveries_started_before_the_breaker_opened_do_not_prevent_the_probe(
    database: Database, three: list[Worker]
) -> None:
    open_breaker(database, three)
    set_past(database, "open_until")
    sync_all(three)
    assert three[0].capacity(in_use={"endpoint": 2 * LIMIT}) == 1


def test_another_process_probes_after_a_prober_dies(database: Database, three: list[Worker]) -> None:
    open_breaker(database, three)
    late, attempt = object(), object()
    dead = half_open(database, three, late)
    found = row(database)
    assert found.probe_until - found.changed_at == timedelta(milliseconds=TIMEOUT_MS + PROBE_SLACK_MS)
    others = [worker for worker in three if worker is not dead]
    sync_all(others)
    assert [worker.probe(attempt) for worker in others] == [False, False]
    set_past(database, "probe_until")
    for worker in others:
        worker.read_states()
    assert sorted(worker.probe(attempt) for worker in others) == [False, True]
    # If the first prober was slow but alive, its result changes nothing.
    dead.target.probed(late, failed=False)
    dead.sync()
    assert row(database).state == "half_open"
    assert not dead.target.lets(late)


def test_probe_does_not_start_too_late_to_end_in_time(database: Database, three: list[Worker]) -> None:
    open_breaker(database, three)
    attempt = object()
    prober = half_open(database, three, attempt)
    assert prober.target.lets(attempt)
    set_past(database, "probe_until")
    prober.read_states()
    assert not prober.target.lets(attempt)


def test_probe_has_the_time_of_the_longest_delivery(database: Database, new_worker: NewWorker) -> None:
    """A later version of the endpoint has the longer timeout."""
    worker = new_worker()
    worker.bindings.bind("endpoint", worker.bindings.bound["endpoint"].name, 60_000, has_turns=True)
    worker.fail(10)
    worker.sync()
    half_open(database, [worker], object())
    found = row(database)
    assert found.probe_until - found.changed_at == timedelta(milliseconds=60_000 + PROBE_SLACK_MS)


@pytest.mark.parametrize("endpoints", [1, 2])
def test_endpoint_that_failed_last_leaves_the_probe_to_other_endpoints(database: Database, endpoints: int) -> None:
    """A probe of another endpoint closes the breaker if only this endpoint fails.

    The only endpoint of a target sends the probe itself.
    """
    worker = Worker(database, "wrk_0", yield_seconds=3600)
    if endpoints > 1:
        worker.bind("other")
    worker.fail(10)
    worker.sync()
    set_past(database, "open_until")
    worker.read_states()
    assert worker.capacity() == (0 if endpoints > 1 else 1)
    assert worker.capacity("other") > 0


def test_failing_endpoint_leaves_the_probe_to_another_endpoint_of_another_process(database: Database) -> None:
    """A process yields although it has neither seen a failure nor the other endpoint."""
    failing, idle, healthy = (Worker(database, f"wrk_{n}", yield_seconds=3600) for n in range(3))
    healthy.bind("other")
    failing.fail(10)
    sync_all([failing, idle, healthy])
    set_past(database, "open_until")
    for worker in (failing, idle, healthy):
        worker.read_states()
    assert [worker.capacity() for worker in (failing, idle, healthy)] == [0, 0, 0]
    assert healthy.capacity("other") > 0
