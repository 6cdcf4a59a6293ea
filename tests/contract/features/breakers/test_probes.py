"""Probes of targets whose breaker is open: one of all worker processes sends one, and what follows."""

from datetime import timedelta

import pytest

from app.features.breakers.rules import PROBE_SLACK_MS
from app.kernel.db import Database
from tests.contract.features.breakers.breaking import (
    LIMIT,
    TIMEOUT_MS,
    NewWorker,
    Worker,
    beat,
    half_open,
    opened,
    reasons,
    row,
    set_past,
)


def test_one_of_all_processes_probes_and_its_success_closes_for_all(database: Database, three: list[Worker]) -> None:
    opened(database, three)
    first, second = object(), object()
    prober = half_open(database, three, first)
    assert row(database).probe_worker == prober.worker_id
    assert not prober.probe(second)
    assert (prober.target.lets(first), prober.target.lets(second)) == (True, False)
    beat(three)
    assert [worker.room() for worker in three] == [0] * 3
    assert row(database).state == "half_open", "no result yet"

    prober.target.probed(second, failed=False)  # it was claimed before, and is under way all the same
    prober.target.probed(first, failed=False)
    prober.target.probed(first, None)  # the first outcome counts
    beat(three)
    assert [worker.room() for worker in three] == [LIMIT] * 3
    found = row(database)
    assert (found.state, found.failed, found.open_until) == ("closed", None, None)
    assert reasons(database) == ["FAILURES", "PROBE", "PROBE_SUCCEEDED"]
    # Earlier failures are forgotten; the success of the probe counts.
    three[1].fail(8)
    beat(three)
    assert row(database).state == "closed"


def test_a_probe_that_fails_opens_the_breaker_again(database: Database, three: list[Worker]) -> None:
    opened(database, three)
    attempt = object()
    prober = half_open(database, three, attempt)
    prober.fail()
    prober.target.probed(attempt, failed=True)
    beat(three)
    found = row(database)
    assert found.state == "open"
    assert found.open_until - found.changed_at == timedelta(seconds=30)
    assert [worker.room() for worker in three] == [0] * 3


def test_a_probe_whose_receiver_asks_to_wait_opens_the_breaker_for_that_long(
    database: Database, three: list[Worker]
) -> None:
    opened(database, three)
    attempt = object()
    prober = half_open(database, three, attempt)
    prober.fail(retry_after_ms=3_600_000)
    prober.target.probed(attempt, failed=True)
    beat(three)
    found = row(database)
    assert (found.state, found.reason) == ("open", "PROBE_FAILED")
    assert found.open_until - found.changed_at > timedelta(seconds=3590)


def test_a_probe_that_is_not_sent_leaves_it_to_others(database: Database, three: list[Worker]) -> None:
    """It may be handed back before its first byte."""
    opened(database, three)
    attempt = object()
    prober = half_open(database, three, attempt)
    prober.target.probed(attempt, None)
    beat(three)
    found = row(database)
    assert (found.state, found.reason) == ("open", "PROBE_UNUSED")
    for worker in three:
        worker.target.try_at *= worker is prober  # a second has passed
    assert [worker.room() for worker in three] == [int(worker is not prober) for worker in three]


def test_a_process_claims_one_execution_at_a_time_for_a_probe(database: Database, three: list[Worker]) -> None:
    opened(database, three)
    set_past(database, "open_until")
    beat(three)
    worker = three[0]
    worker.bind("other")
    assert [worker.room(endpoint) for endpoint in ("endpoint", "endpoint", "other")] == [1, 0, 0]


def test_deliveries_that_began_before_it_opened_leave_room_for_the_probe(
    database: Database, three: list[Worker]
) -> None:
    opened(database, three)
    set_past(database, "open_until")
    beat(three)
    assert three[0].room(held={"endpoint": 2 * LIMIT}) == 1


def test_a_prober_that_dies_is_followed_by_another(database: Database, three: list[Worker]) -> None:
    opened(database, three)
    late, attempt = object(), object()
    dead = half_open(database, three, late)
    found = row(database)
    assert found.probe_until - found.changed_at == timedelta(milliseconds=TIMEOUT_MS + PROBE_SLACK_MS)
    others = [worker for worker in three if worker is not dead]
    beat(others)
    assert [worker.probe(attempt) for worker in others] == [False, False]
    set_past(database, "probe_until")
    for worker in others:
        worker.learn()
    assert sorted(worker.probe(attempt) for worker in others) == [False, True]
    # If it was only slow, its outcome changes nothing.
    dead.target.probed(late, failed=False)
    dead.beat()
    assert row(database).state == "half_open"
    assert not dead.target.lets(late)


def test_a_probe_does_not_begin_too_late_to_end_in_time(database: Database, three: list[Worker]) -> None:
    opened(database, three)
    attempt = object()
    prober = half_open(database, three, attempt)
    assert prober.target.lets(attempt)
    set_past(database, "probe_until")
    prober.learn()
    assert not prober.target.lets(attempt)


def test_a_probe_has_the_time_of_the_longest_delivery(database: Database, new_worker: NewWorker) -> None:
    """Also of a version that came later."""
    worker = new_worker()
    worker.bindings.bind("endpoint", worker.bindings.bound["endpoint"].name, 60_000, has_turns=True)
    worker.fail(10)
    worker.beat()
    half_open(database, [worker], object())
    found = row(database)
    assert found.probe_until - found.changed_at == timedelta(milliseconds=60_000 + PROBE_SLACK_MS)


@pytest.mark.parametrize("endpoints", [1, 2])
def test_the_endpoint_that_failed_last_leaves_the_probe_to_others(database: Database, endpoints: int) -> None:
    """If it fails alone, a probe of another endpoint closes the breaker. Alone at its target it waits for nobody."""
    worker = Worker(database, "wrk_0", yield_seconds=3600)
    if endpoints > 1:
        worker.bind("other")
    worker.fail(10)
    worker.beat()
    set_past(database, "open_until")
    worker.learn()
    assert worker.room() == (0 if endpoints > 1 else 1)
    assert worker.room("other") > 0
