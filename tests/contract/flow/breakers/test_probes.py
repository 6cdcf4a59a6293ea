"""Probes of targets that are shut: one of all worker processes sends one, and what follows."""

import time
from datetime import timedelta

import pytest

from app.features.breakers import target_rows as store
from app.features.breakers.rules import PROBE_SLACK_MS
from app.kernel.db import Database
from schema.states import BreakerState
from tests.contract.flow.breakers.breaking import (
    LIMIT,
    NAME,
    TIMEOUT_MS,
    NewWorker,
    Worker,
    beat,
    half_open,
    opened,
    reasons,
    room_of,
    row,
    set_past,
)


def test_one_of_all_processes_probes_and_its_success_opens_for_all(database: Database, three: list[Worker]) -> None:
    opened(database, three)
    prober = half_open(database, three)
    assert row(database).probe_worker == prober.worker_id
    first, second = object(), object()
    assert prober.target.take_probe(first, "endpoint")
    assert not prober.target.take_probe(second, "endpoint")
    assert (prober.target.lets(first), prober.target.lets(second)) == (True, False)
    assert prober.room() == 0
    beat(three)
    assert row(database).state == "half_open", "no result yet"

    prober.target.probed(second, failed=False)  # was claimed before, and is under way all the same
    prober.target.probed(first, failed=False)
    beat(three)
    assert [worker.room() for worker in three] == [LIMIT] * 3
    found = row(database)
    assert (found.state, found.failed, found.open_until) == ("closed", None, None)
    assert reasons(database) == ["FAILURES", "PROBE", "PROBE_SUCCEEDED"]
    # What failed before is forgotten.
    three[1].fail(9)
    beat(three)
    assert row(database).state == "closed"


def test_a_probe_that_fails_shuts_it_again(database: Database, three: list[Worker]) -> None:
    opened(database, three)
    prober = half_open(database, three)
    attempt = object()
    assert prober.target.take_probe(attempt, "endpoint")
    prober.fail()
    prober.target.probed(attempt, failed=True)
    beat(three)
    found = row(database)
    assert found.state == "open"
    assert found.open_until - found.changed_at == timedelta(seconds=30)
    assert [worker.room() for worker in three] == [0] * 3
    half_open(database, three)


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_probe_that_is_not_sent_leaves_it_to_others(database: Database, three: list[Worker], is_taken: bool) -> None:
    """What it was won for may be gone, or handed back before its first byte."""
    opened(database, three)
    prober = half_open(database, three)
    attempt = object()
    if is_taken:
        assert prober.target.take_probe(attempt, "endpoint")
        prober.target.probed(attempt, None)
    else:
        assert prober.target.probe is not None
        prober.target.probe.until = time.monotonic()
        assert not prober.target.take_probe(attempt, "endpoint")
    prober.beat()
    assert row(database).state == "open"
    assert half_open(database, three) is not prober, "it leaves the next one to those who may have room"


def test_what_began_before_it_opened_leaves_room_for_the_probe(database: Database, three: list[Worker]) -> None:
    opened(database, three)
    prober = half_open(database, three)
    assert room_of(prober.targets, "endpoint", {"endpoint": 0}) == 1
    hanging = prober.bind("hanging")
    assert hanging is prober.target
    assert [room_of(prober.targets, "hanging", {"hanging": held}) for held in (10, 11)] == [1, 0]


def test_a_prober_that_dies_is_followed_by_another(database: Database, three: list[Worker]) -> None:
    opened(database, three)
    dead = half_open(database, three)
    found = row(database)
    assert found.probe_until - found.changed_at == timedelta(milliseconds=TIMEOUT_MS + PROBE_SLACK_MS)
    others = [worker for worker in three if worker is not dead]
    beat(others)
    assert [worker.room() for worker in others] == [0, 0]
    set_past(database, "probe_until")
    for worker in others:
        worker.learn()
        assert worker.room() == 0
    beat(others)
    assert sum(worker.room() for worker in others) == 1
    # If it was only slow: it may not begin any more, and what it has to tell changes nothing.
    attempt = object()
    dead.target.take_probe(attempt, "endpoint")
    dead.target.probed(attempt, failed=False)
    dead.breakers.act()
    assert row(database).state == "half_open"


def test_a_right_whose_grant_was_lost_on_the_way_is_found_again(database: Database, three: list[Worker]) -> None:
    opened(database, three)
    set_past(database, "open_until")
    (before,) = store.notable(database).breakers
    wanted = three[0].target.decide({})
    assert wanted is None, "it does not know yet that the time has come"
    three[0].learn()
    wanted = three[0].target.decide({})
    assert wanted is not None
    assert wanted.to is BreakerState.HALF_OPEN
    assert store.change(database, before, wanted._replace(for_ms=60_000), three[0].worker_id) is not None
    beat(three)
    assert [worker.room() for worker in three] == [1, 0, 0]


def test_a_probe_has_the_time_of_the_longest_delivery(database: Database, new_worker: NewWorker) -> None:
    """Also of a version that came later."""
    worker = new_worker()
    worker.targets.bind("endpoint", NAME, 60_000, has_turns=True)
    worker.fail(10)
    worker.beat()
    half_open(database, [worker])
    found = row(database)
    assert found.probe_until - found.changed_at == timedelta(milliseconds=60_000 + PROBE_SLACK_MS)
