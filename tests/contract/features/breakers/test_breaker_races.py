"""Concurrent changes of a breaker: exactly one worker succeeds with each change, at both isolation levels."""

import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from sqlalchemy import text

from app.features.breakers import store as breakers_store
from app.features.breakers.rules import BreakerSettings, Counted, Counts, Reason, StoredBreaker, Transition
from app.kernel.db import Database
from brokers.flow_state import read_flow_state
from schema.states import BreakerState
from tests.contract.races.racing import schedulers
from tests.racing import at_once

TARGET = "http:host:80"
WORKERS = 8
OPENS = Transition(BreakerState.OPEN, Reason.FAILURES, 30_000, 6, 10)
PROBES = Transition(BreakerState.HALF_OPEN, Reason.PROBE, 60_000)
FAILS_AGAIN = Transition(BreakerState.OPEN, Reason.PROBE_FAILED, 30_000)
CLOSES = Transition(BreakerState.CLOSED, Reason.PROBE_SUCCEEDED)


@pytest.fixture(params=["read committed", "serializable"])
def workers(request: pytest.FixtureRequest, database_url: str) -> Iterator[list[Database]]:
    with schedulers(database_url, request.param, WORKERS) as databases:
        breakers_store.publish(databases[0], {TARGET: 60_000}, [])
        yield databases


def standing(database: Database) -> StoredBreaker:
    (found,) = read_flow_state(database, "wrk_0").breakers
    return found


def race(
    workers: list[Database], wanted: Transition, before: StoredBreaker | None = None
) -> list[StoredBreaker | None]:
    """Request the same change in each worker, based on the row that it reads or on `before`."""

    def body(number: int) -> StoredBreaker | None:
        database = workers[number]
        return breakers_store.change(database, before or standing(database), wanted, f"wrk_{number}")

    bodies: list[Callable[[], StoredBreaker | None]] = [partial(body, number) for number in range(WORKERS)]
    return at_once(*bodies)


def winner(results: list[StoredBreaker | None]) -> int:
    (number,) = [number for number, result in enumerate(results) if result is not None]
    return number


def expire(database: Database, column: str) -> None:
    database.fetch(text(f"UPDATE breakers SET {column} = now() - INTERVAL '1 second' RETURNING 1"))


def events(database: Database) -> list[tuple[str, str, str, str | None]]:
    rows = database.fetch(
        text("SELECT from_state, to_state, reason, actor FROM breaker_events ORDER BY occurred_at, event_id")
    )
    return [tuple(row) for row in rows]


def test_concurrent_change_succeeds_for_one_worker(workers: list[Database]) -> None:
    """A worker that reads the row after the change has nothing to change."""
    database = workers[0]
    opener = winner(race(workers, OPENS, standing(database)))
    assert race(workers, PROBES) == [None] * WORKERS, "the breaker is open"
    expire(database, "open_until")

    prober = winner(race(workers, PROBES))
    half_open = standing(database)
    assert half_open.probe_worker == f"wrk_{prober}"
    assert race(workers, PROBES) == [None] * WORKERS, "a probe is in progress"

    expire(database, "probe_until")
    second = winner(race(workers, PROBES))
    # The first prober was slow but alive: its result comes too late.
    assert breakers_store.change(database, half_open, CLOSES, f"wrk_{prober}") is None

    reopener = winner(race(workers, FAILS_AGAIN, standing(database)))
    expire(database, "open_until")
    third = winner(race(workers, PROBES))
    closer = winner(race(workers, CLOSES, standing(database)))

    expected = [
        ("closed", "open", "FAILURES", opener),
        ("open", "half_open", "PROBE", prober),
        ("half_open", "half_open", "PROBE", second),
        ("half_open", "open", "PROBE_FAILED", reopener),
        ("open", "half_open", "PROBE", third),
        ("half_open", "closed", "PROBE_SUCCEEDED", closer),
    ]
    assert events(database) == [(before, after, reason, f"wrk_{number}") for before, after, reason, number in expected]


def test_longer_open_time_is_never_shortened(workers: list[Database]) -> None:
    """The receiver requests an hour, failures alone open for half a minute; the longer time holds in any order."""
    hour = Transition(BreakerState.OPEN, Reason.RETRY_AFTER, 3_600_000)

    def until_open(database: Database, wanted: Transition) -> None:
        while breakers_store.change(database, standing(database), wanted, "wrk_1") is None:
            pass

    until_open(workers[0], hour)
    at_once(*(partial(until_open, database, wanted) for database, wanted in zip(workers, [OPENS, hour], strict=False)))
    after = standing(workers[0])
    assert after.revision == 3
    assert after.until - time.monotonic() > 3590


def test_results_of_all_processes_are_added(workers: list[Database]) -> None:
    """No process has enough results; after the last write, all processes together have enough."""

    def publish(number: int) -> bool:
        results = [Counted(TARGET, age, endpoint, 0, 1) for age in (1, 0) for endpoint in ("a", "b")]
        breakers_store.publish(workers[number], {TARGET: 60_000}, results, [(TARGET, "a"), (TARGET, "b")])
        return counted(number) is not None

    def counted(number: int) -> Transition | None:
        (found,) = breakers_store.counted(workers[number], {TARGET: 7}).items()
        assert found[0] == StoredBreaker(TARGET)
        return BreakerSettings(min_results=4 * WORKERS).opened_by(found[1])

    found = at_once(*(partial(publish, number) for number in range(WORKERS)))
    assert any(found)
    each = {"a": Counts(0, 2 * WORKERS), "b": Counts(0, 2 * WORKERS)}
    assert breakers_store.counted(workers[0], {TARGET: 7}) == {StoredBreaker(TARGET): each}


def test_locked_breaker_delays_no_result_of_other_targets(workers: list[Database]) -> None:
    """A worker writes the results of all its targets in one statement, once a second."""
    locked, other = TARGET, "http:other:80"
    with workers[0].engine.connect() as stranger, stranger.begin():
        stranger.execute(text("SELECT 1 FROM breakers WHERE target = :target FOR UPDATE"), {"target": locked})
        results = [Counted(target, 0, "a", 0, 1) for target in (locked, other)]
        breakers_store.publish(workers[1], {locked: 90_000, other: 90_000}, results)
    assert {found.target for found in read_flow_state(workers[2], "wrk_2").breakers} == {locked, other}
    assert breakers_store.counted(workers[2], {locked: 7, other: 7}) == {
        StoredBreaker(target): {"a": Counts(0, 1)} for target in (locked, other)
    }
