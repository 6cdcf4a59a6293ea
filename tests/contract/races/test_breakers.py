"""Changes of a breaker by many workers at once: one makes each, at both isolation levels."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from sqlalchemy import text

from app.features.breakers import target_rows
from app.features.breakers.rules import (
    BreakerSettings,
    Reason,
    Source,
    Standing,
    Transition,
    after_probe,
    decide,
    decide_together,
    slot_at,
)
from app.features.breakers.target_rows import Noted, Publication
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from schema.states import BreakerState
from tests.contract.races.racing import schedulers
from tests.racing import at_once

TARGET = "http:host:80"
WORKERS = 8
DEFAULTS = BreakerSettings()
OPENS = Transition(BreakerState.OPEN, Reason.FAILURES, 30_000, 6, 10)
PROBES = Transition(BreakerState.HALF_OPEN, Reason.PROBE, 60_000)


@pytest.fixture(params=["read committed", "serializable"])
def workers(request: pytest.FixtureRequest, database_url: str) -> Iterator[list[Database]]:
    with schedulers(database_url, request.param, WORKERS) as databases:
        target_rows.publish(databases[0], "wrk_0", Publication({TARGET: 60_000}, [], [], {}))
        yield databases


def noted(database: Database) -> Noted:
    (found,) = target_rows.notable(database).breakers
    return found


def race(workers: list[Database], wanted: Transition, before: Noted | None = None) -> list[Noted | None]:
    """Let each worker ask for a change of the row as it reads it, or as it was."""

    def body(number: int) -> Noted | None:
        database = workers[number]
        return target_rows.change(database, before or noted(database), wanted, f"wrk_{number}")

    bodies: list[Callable[[], Noted | None]] = [partial(body, number) for number in range(WORKERS)]
    return at_once(*bodies)


def winner(results: list[Noted | None]) -> int:
    (number,) = [number for number, result in enumerate(results) if result is not None]
    return number


def expire(database: Database, column: str) -> None:
    database.fetch(text(f"UPDATE breakers SET {column} = now() - INTERVAL '1 second' RETURNING 1"))


def events(database: Database) -> list[tuple[str, str, str, str | None]]:
    rows = database.fetch(
        text("SELECT from_state, to_state, reason, actor FROM breaker_events ORDER BY occurred_at, event_id")
    )
    return [tuple(row) for row in rows]


def test_each_change_is_made_by_one(workers: list[Database]) -> None:
    """Of all that decide on the same row; who reads it later finds nothing left to decide."""
    database = workers[0]
    opener = winner(race(workers, OPENS, noted(database)))
    assert race(workers, PROBES) == [None] * WORKERS, "it is open"
    expire(database, "open_until")

    prober = winner(race(workers, PROBES))
    half_open = noted(database)
    assert half_open.probe_worker == f"wrk_{prober}"
    assert race(workers, PROBES) == [None] * WORKERS, "it is being probed"

    expire(database, "probe_until")
    second = winner(race(workers, PROBES))
    # The first prober was only slow: its result comes too late.
    late = after_probe(False, DEFAULTS)
    assert target_rows.change(database, half_open, late, f"wrk_{prober}") is None

    again = after_probe(True, DEFAULTS)
    reopener = winner(race(workers, again, noted(database)))
    expire(database, "open_until")
    third = winner(race(workers, PROBES))
    closer = winner(race(workers, after_probe(False, DEFAULTS), noted(database)))

    told = [
        ("closed", "open", "FAILURES", opener),
        ("open", "half_open", "PROBE", prober),
        ("half_open", "half_open", "PROBE", second),
        ("half_open", "open", "PROBE_FAILED", reopener),
        ("open", "half_open", "PROBE", third),
        ("half_open", "closed", "PROBE_SUCCEEDED", closer),
    ]
    assert events(database) == [(before, after, reason, f"wrk_{number}") for before, after, reason, number in told]


def test_a_longer_wait_is_never_cut_short(workers: list[Database]) -> None:
    """Whoever comes first: the receiver asked for an hour, failures alone mean half a minute."""
    hour = Transition(BreakerState.OPEN, Reason.RETRY_AFTER, 3_600_000)

    def until_open(database: Database, wanted: Transition) -> None:
        while target_rows.change(database, noted(database), wanted, "wrk_1") is None:
            pass

    until_open(workers[0], hour)
    at_once(*(partial(until_open, database, wanted) for database, wanted in zip(workers, [OPENS, hour], strict=False)))
    after = noted(workers[0])
    assert after.revision == 3
    assert after.until is not None
    assert (after.until - after.changed_at).total_seconds() > 3590


def test_the_counts_of_all_workers_are_added(workers: list[Database]) -> None:
    """No worker has seen enough; the last one to tell finds that all together have."""
    (now,) = workers[0].fetch(text("SELECT now()"))[0]
    seconds = (now - EPOCH).total_seconds()
    slot = slot_at(seconds)

    def publish(number: int) -> bool:
        mine = {slot: (0, 1), slot - 1: (0, 1)}
        told = Publication(
            {TARGET: 60_000},
            [(TARGET, at, "", *pair) for at, pair in mine.items()],
            [(TARGET, f"endpoint-{number}")],
            {TARGET: slot - 6},
        )
        assert decide(Standing(), mine, DEFAULTS, seconds) is None
        for _ in range(2):  # its answer may be lost
            others = target_rows.publish(workers[number], f"wrk_{number}", told).get(TARGET, {})
        return decide_together(Standing(), {Source(f"wrk_{number}"): mine, **others}, DEFAULTS, seconds) is not None

    found = at_once(*(partial(publish, number) for number in range(4)))
    assert publish(4), found
    others = target_rows.publish(workers[5], "wrk_5", Publication({}, [], [], {TARGET: slot}))
    assert others == {TARGET: {Source(f"wrk_{number}", host=f"wrk_{number}"): {slot: (0, 1)} for number in range(5)}}
