"""Rollups equal a recount of the rows, whichever schedulers compute them and wherever they are killed."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, text

from app.features.rollups import rollup_slots
from app.features.rollups.rollup_slots import HOUR_S, KEPT_S, LEAVE_OUT, advance, floored, marks, rebuild
from app.features.rollups.rollup_statements import FAILURE_COUNTS, FIGURES
from app.kernel import ids
from app.kernel.db import Database
from app.queue.reading.horizon import horizon_of_attempts
from schema import tables
from schema.rollup_bounds import STEPS_S
from tests import rows
from tests.contract.races.mortal import Mortal
from tests.contract.races.racing import WAYS, schedulers, strip_locks
from tests.contract.scheduler.conftest import chores
from tests.endings import (
    ENDPOINTS,
    Ending,
    begin_rollups,
    put_endings,
    random_endings,
    recounted,
    recounted_failures,
)
from tests.racing import at_once
from tests.waiting import eventually

MANY = 100  # endpoints with rows of their own, and short slots


@pytest.fixture
def start(database: Database) -> datetime:
    """The minute with which the rollups begin."""
    for name in ENDPOINTS:
        rows.add_endpoint(database, name)
    return begin_rollups(database, 12)


@pytest.fixture
def endings(database: Database, start: datetime) -> list[Ending]:
    """Endings of all kinds since the start."""
    found = random_endings(start, rows.database_now(database) - timedelta(seconds=15), 120)
    put_endings(database, found)
    return found


def stored(database: Database, table: str, columns: Sequence[str], step_s: int) -> dict[tuple[Any, ...], Counter[str]]:
    """Read the slots of a table that are not empty, by their keys."""
    key = ["endpoint", "slot", *(["error_type"] if table == "failure_rollups" else [])]
    query = text(f"SELECT {', '.join([*key, *columns])} FROM {table} WHERE step_s = :step")
    found = {
        tuple(row[: len(key)]): +Counter({name: getattr(row, name) or 0 for name in columns})
        for row in database.fetch(query, {"step": step_s})
    }
    return {each: counts for each, counts in found.items() if counts}


def assert_recount(database: Database, endings: Sequence[Ending], steps: Sequence[int] = STEPS_S[:2]) -> None:
    """Compare every computed slot with a recount of the rows."""
    reached = marks(database).reached
    for step in steps:
        counted = [each for each in endings if each.at < reached[step]]
        assert stored(database, "delivery_rollups", FIGURES, step) == recounted(counted, step)
        failures = {key: +counts for key, counts in recounted_failures(counted, step).items() if +counts}
        assert stored(database, "failure_rollups", FAILURE_COUNTS, step) == failures


def run(database: Database) -> list[int]:
    return list(advance(database, MANY, most=MANY))


@pytest.mark.own_faults
@pytest.mark.parametrize("way", WAYS)
def test_rollups_of_killed_and_concurrent_schedulers_equal_a_recount(
    database: Database,
    database_url: str,
    start: datetime,
    endings: list[Ending],
    way: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strip_locks(monkeypatch, way, rollup_slots, "FILL", "FILL_EMPTY", "FOLD")
    for dies_at in (*range(8), 20):
        Mortal(database_url, dies_at).run(run)
    with schedulers(database_url, way) as each:
        done = at_once(*(lambda of=of: run(of) for of in each))
    assert_recount(database, endings)
    slots = database.fetch(text("SELECT step_s, slot FROM delivery_rollups WHERE endpoint = ''"))
    reached = marks(database).reached
    assert Counter(row.step_s for row in slots if row.step_s != HOUR_S) == Counter(
        {step: (reached[step] - start) // timedelta(seconds=step) for step in STEPS_S[:2]}
    ), "also a slot without deliveries has a row"
    assert len(done[0]) + len(done[1]) < len(slots), "the killed schedulers computed some"


def test_locked_mark_is_left_to_the_process_that_computes_the_slot(database: Database, start: datetime) -> None:
    reached = marks(database).reached
    query = text("UPDATE rollup_marks SET reached = reached - INTERVAL '30 hours' WHERE step_s = 60 RETURNING step_s")
    with database.engine.begin() as another:
        another.execute(query)
        run(database)
        after = marks(database).reached
        assert after[10] > reached[10]
        assert (after[60], after[3600]) == (reached[60], reached[3600])
        assert database.fetch(LEAVE_OUT, {"at": after[10] + timedelta(days=2), "count": len(STEPS_S)}) == []
    assert [*marks(database).reached.values()] != [*after.values()]


def test_endpoints_beyond_the_bound_share_a_row(database: Database, endings: list[Ending]) -> None:
    assert list(advance(database, 1))
    for step in STEPS_S[:2]:
        found = stored(database, "delivery_rollups", FIGURES, step)
        for slot in {slot for _, slot in found}:
            named = {name: counts for (name, at), counts in found.items() if at == slot and name}
            assert sum(named.values(), Counter()) == found["", slot]
            assert len(named.keys() - {"*"}) <= 1
    assert any(name == "*" for name, _ in stored(database, "delivery_rollups", FIGURES, 60))


def test_types_of_error_beyond_the_bound_share_a_row(database: Database, start: datetime) -> None:
    names = ["frequent", "frequent", *(f"type {number:02}" for number in range(60))]
    put_endings(database, [Ending("busy", start, "FAILED", name) for name in names])
    run(database)
    for step in STEPS_S[:2]:
        found = stored(database, "failure_rollups", FAILURE_COUNTS, step)
        for endpoint in ("", "busy"):
            types = {key[2]: counts["failed"] for key, counts in found.items() if key[0] == endpoint}
            assert len(types) == 51
            assert (types["frequent"], types["*"]) == (2, 11)


@pytest.mark.postgresql_only
def test_slot_waits_for_a_transaction_that_may_still_write_into_it(database: Database, start: datetime) -> None:
    run(database)
    (execution_id,) = rows.add_executions(database, endpoint="busy")
    with database.engine.begin() as late:
        attempt = {"attempt_id": ids.attempt_id(), "execution_id": execution_id, "attempt_number": 1}
        ended = {"status": "FAILED", "led_to": "FAILED", "error": {"type": "TIMEOUT"}}
        wrote = insert(tables.attempts).values(attempt | ended | {"started_at": start})
        at = late.execute(wrote.returning(tables.attempts.c.created_at)).scalar_one()
        run(database)
        assert marks(database).reached[10] <= at
        assert horizon_of_attempts(database).at < at
    assert eventually(lambda: horizon_of_attempts(database).at > at)


def test_rebuilt_hours_equal_a_recount(database: Database, start: datetime) -> None:
    hour = floored(start, HOUR_S)
    before = random_endings(hour - timedelta(hours=1), hour, 100, seed=1)
    put_endings(database, before)
    for _ in range(2):
        assert hour - timedelta(hours=1) in rebuild(database, hour - timedelta(minutes=61), MANY)
        for step in STEPS_S[1:]:
            expected = recounted(before, step)
            found = stored(database, "delivery_rollups", FIGURES, step)
            assert {key: counts for key, counts in found.items() if key[1] < hour} == expected
        # The next run corrects the wrong counts.
        database.fetch(text("UPDATE delivery_rollups SET attempts = attempts + 1"))


def test_rebuilt_hours_beyond_the_age_of_minutes_keep_no_minutes(database: Database, start: datetime) -> None:
    old = floored(start, HOUR_S) - timedelta(seconds=KEPT_S[60], hours=2)
    ended = random_endings(old, old + timedelta(hours=1), 30)
    put_endings(database, ended)
    assert next(rebuild(database, old, MANY)) == old
    assert stored(database, "delivery_rollups", FIGURES, HOUR_S) == recounted(ended, HOUR_S)
    assert stored(database, "delivery_rollups", FIGURES, 60) == {}


@pytest.mark.parametrize("is_rebuilt", [False, True])
def test_time_without_a_scheduler_beyond_a_day_is_left_out(
    database: Database, start: datetime, is_rebuilt: bool
) -> None:
    if is_rebuilt:  # which leaves marks of its own
        assert list(rebuild(database, start - timedelta(hours=1), MANY))
        database.fetch(text("DELETE FROM delivery_rollups"))
    database.fetch(text("UPDATE rollup_marks SET reached = reached - INTERVAL '30 hours'"))
    next(advance(database, MANY))
    (row,) = database.fetch(text("SELECT min(slot) AS first FROM delivery_rollups"))
    assert row.first == floored(row.first, HOUR_S) >= floored(start, HOUR_S)
    assert min(marks(database).reached.values()) >= row.first


def test_late_result_of_an_ended_execution_is_no_second_end(database: Database, endings: list[Ending]) -> None:
    database.fetch(
        text("""
        INSERT INTO execution_events
               (event_id, execution_id, from_status, to_status, attempt_number, reason, occurred_at)
        SELECT 'evt_' || execution_id, execution_id, status, status, 1, 'STALE_RESULT', completed_at FROM executions
         WHERE status IN ('FAILED', 'CANCELLED')
        """)
    )
    run(database)
    assert_recount(database, endings)


def test_run_of_the_chore_is_bounded_and_the_next_run_continues(database: Database, endings: list[Ending]) -> None:
    chore = chores(database)
    done = [rollup_slots.MAX_SLOTS]
    while done[-1] == rollup_slots.MAX_SLOTS:
        done.append(chore.rollup()["slots of 10 s"])
    assert max(done) == rollup_slots.MAX_SLOTS
    assert sum(done[1:]) > rollup_slots.MAX_SLOTS
    assert_recount(database, endings)


def test_minutes_are_folded_before_the_short_slots_have_caught_up(database: Database, start: datetime) -> None:
    done = chores(database).rollup()
    assert (done["slots of 10 s"], done["slots of 60 s"]) == (60, 10)


def test_slot_that_is_not_folded_is_kept(database: Database, start: datetime) -> None:
    mark, old = marks(database).reached[60] - timedelta(hours=5), timedelta(seconds=10)
    database.fetch(text("UPDATE rollup_marks SET reached = :mark WHERE step_s = 60"), {"mark": mark})
    for slot in (mark - old, mark):
        values = {"endpoint": "", "step_s": 10, "slot": slot, "attempts": 1}
        database.fetch(insert(tables.delivery_rollups).values(values).returning(tables.delivery_rollups.c.slot))
    assert chores(database).prune_rollups()["rollups"] == 1
    assert [row.slot for row in database.fetch(text("SELECT slot FROM delivery_rollups"))] == [mark]


def test_old_slots_are_deleted_by_their_lengths(database: Database, start: datetime) -> None:
    run(database)
    for step, age in {10: timedelta(hours=4), 60: timedelta(days=4), 3600: timedelta(days=91)}.items():
        slot = {"step_s": step, "slot": rows.database_now(database) - age}
        for table, key in (
            (tables.delivery_rollups, {"endpoint": "old", "attempts": 1}),
            (tables.failure_rollups, {"endpoint": "old", "error_type": "TIMEOUT"}),
            (tables.queue_samples, {"queue": "old", "due": 1, "workers": 1}),
        ):
            database.fetch(insert(table).values(slot | key).returning(table.c.slot))
    assert chores(database).prune_rollups()["rollups"] == 9
    assert chores(database).prune_rollups()["rollups"] == 0
    assert database.fetch(text("SELECT 1 FROM delivery_rollups WHERE endpoint = ''"))
