"""Arithmetic of limiters in SQL, compared with the pure functions for random states."""

import random
from datetime import timedelta

import pytest
from sqlalchemy import text

from app.catalog.endpoints.limits import Rate
from app.features.limits import rules
from app.kernel.db import Database
from app.kernel.formats import EPOCH, MICROSECOND
from brokers.worker_process import WorkerProcess
from tests import rate_model, rows
from tests.claiming import TARGET, add_to
from tests.limited_claims import add_limiters, limiters_of_partitions, take_limited

SECOND = 1_000_000_000
STATES, WANTED, AHEAD = 100, 8, 5
SET_BUCKET = text("UPDATE gates SET tat_ns = :tat RETURNING tat_ns")
# These slots are used by no claim.
SET_WINDOW = text(
    "INSERT INTO gate_windows (gate_id, slot, bucket, started) "
    "SELECT 'target', 1000 + u.slot, u.bucket, u.started "
    "FROM unnest(CAST(:slots AS BIGINT[]), CAST(:buckets AS BIGINT[]), CAST(:counts AS BIGINT[])) "
    "AS u (slot, bucket, started)"
)
ARRIVAL = text("SELECT tat_ns FROM gates")
OWN_SLOTS = text("SELECT bucket, started FROM gate_windows WHERE slot NOT BETWEEN 1000 AND 1002")


def ns(instant: object) -> int:
    return (instant - EPOCH) // MICROSECOND * 1000  # type: ignore[operator]


@pytest.fixture
def backlog(process: WorkerProcess) -> Database:
    add_to(process.database, TARGET, STATES * WANTED)
    add_limiters(process.database, [TARGET], {"max_in_flight": 1})
    return process.database


def rate_of(seed: random.Random, *, is_sliding: bool) -> Rate:
    count = seed.choice([1, 2, 3, 10, 999])
    limits = {"count": count, "per": f"{seed.choice([1000, 1001, 7777, 60_000])}ms"}
    limits |= {"window": "sliding"} if is_sliding else {"burst": seed.randint(1, count)}
    return Rate.from_json(limits)


def test_token_bucket_in_sql_equals_the_pure_functions(backlog: Database, process: WorkerProcess) -> None:
    seed = random.Random(7)
    for _ in range(STATES):
        rate = rate_of(seed, is_sliding=False)
        near = seed.choice([rate.period_ns, rate.span_ns, rate.span_ns + rate.per_ns, 9 * rate.per_ns])
        tat = max(0, ns(rows.database_now(backlog)) + seed.choice([-1, 1]) * seed.randint(0, near))
        backlog.fetch(SET_BUCKET, {"tat": tat})
        limits = {"rate": rate.as_json()}
        answer = take_limited(backlog, process.worker_id, limits, WANTED, most_ahead=AHEAD)
        now, (limiter,) = ns(answer.now), limiters_of_partitions([TARGET], limits, most_ahead=AHEAD)
        count = min(WANTED, rules.most_until(tat, now, now + limiter.ahead_ns, rate))
        waits = [max(0, rules.starts(tat, now, rate, place + 1) - now) / SECOND for place in range(count)]
        assert sorted(max(0.0, claim.due_in_seconds) for claim in answer.claims) == pytest.approx(waits, abs=1e-6)
        assert answer.limiters["target"].tat_ns == rules.pace(tat, now, rate) - now
        assert backlog.fetch(ARRIVAL)[0].tat_ns == (rate_model.after(tat, now, rate, count) if count else tat)


def test_sliding_window_in_sql_equals_the_model(backlog: Database, process: WorkerProcess) -> None:
    seed = random.Random(7)
    for _ in range(STATES):
        rate = rate_of(seed, is_sliding=True)
        now = ns(rows.database_now(backlog))
        back = {seed.choice([*range(99, 105), seed.randint(-5, 110)]) for _ in range(3)}
        started = {rate_model.bucket(now, rate) - by * rate.bucket_ns: seed.randint(1, rate.count) for by in back}
        backlog.fetch(text("DELETE FROM gate_windows"))
        slots = {"slots": list(range(len(back))), "buckets": list(started), "counts": list(started.values())}
        backlog.fetch(SET_WINDOW, slots)
        limits = {"rate": rate.as_json()}
        answer = take_limited(backlog, process.worker_id, limits, WANTED)
        now, state = ns(answer.now), answer.limiters["target"]
        count = min(WANTED, rate_model.most(started, now, rate))
        assert len(answer.claims) == count
        counted = {begin: some for begin, some in started.items() if rate_model.is_counted(begin, now, rate)}
        assert (state.started, state.oldest_ns) == (sum(counted.values()), min(counted, default=now) - now)
        own = [tuple(row) for row in backlog.fetch(OWN_SLOTS)]
        assert own == ([(rate_model.bucket(now, rate), count)] if count else [])


def test_ring_slot_holds_its_newest_bucket_and_keeps_each_bucket_that_counts(process: WorkerProcess) -> None:
    limits = {"rate": {"count": 9, "per": "24h", "window": "sliding"}}
    add_to(process.database, TARGET, 9)
    add_limiters(process.database, [TARGET], limits)
    read = text("SELECT slot, bucket, started FROM gate_windows")

    def claimed() -> tuple[int, int, int]:
        take_limited(process.database, process.worker_id, limits, 1)
        (row,) = process.database.fetch(read)
        return row.slot, row.bucket, row.started

    slot, begin, _ = claimed()
    assert claimed() == (slot, begin, 2)
    # The clock was set back by a turn of the ring: starts in a future bucket still count.
    turn = timedelta(hours=24) * 1.28
    shift = text("UPDATE gate_windows SET bucket = bucket + :ns")
    process.database.fetch(shift, {"ns": turn // MICROSECOND * 1000})
    assert claimed() == (slot, begin + turn // MICROSECOND * 1000, 3)
    # A bucket from one turn ago no longer counts.
    process.database.fetch(shift, {"ns": -2 * (turn // MICROSECOND * 1000)})
    assert claimed() == (slot, begin, 1)
