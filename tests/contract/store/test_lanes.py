"""Lanes: what a look and a sweep find of them, and what a claim takes from several at once."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.queue.claiming import full_scan as sweeps
from app.queue.claiming import poll as looks
from app.queue.claiming.full_scan import Sweep
from app.queue.claiming.partition import Lane
from app.queue.claiming.poll import PROBED, Looked, look
from app.queue.executions.watermark import SLACK
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.claiming import TARGET, add_to, take

ENDPOINTS = [f"e{number:02d}" for number in range(40)]


def looked(database: Database, shards: int = 1, *, since: datetime = EPOCH, horizon_ms: int = 60_000) -> Looked:
    return look(database, queue="http", since=[since] * shards, horizon_ms=horizon_ms)


def swept(database: Database, shards: int = 1, last: Sweep | None = None) -> tuple[Sweep, list[Lane], int]:
    """Sweep to the end; returns the sweep, what it found and how many steps it took."""
    sweep, found, steps = Sweep(shards, last), list[Lane](), 0
    while not sweep.is_over:
        due, _ = sweep.step(database, "http")
        found += [one.lane for one in due]
        steps += 1
    return sweep, found, steps


def test_a_claim_takes_the_oldest_of_each_lane_and_nothing_of_others(process: WorkerProcess) -> None:
    """Lanes differ in one part of their name each."""
    lanes = [TARGET, Lane(0, "target", "=a", 128), Lane(0, "target", "", 129), Lane(0, "other", "", 128)]
    late = {lane: add_to(process.database, lane, due_in=-60)[0] for lane in lanes}
    for lane in (*lanes, Lane(1, "target", "", 128)):
        add_to(process.database, lane)
    taken = take(process.database, process.worker_id, 1, lanes=tuple(lanes[:3]))
    got = {claim.execution_id: (claim.shard, claim.endpoint, claim.limit_key, claim.priority) for claim in taken.claims}
    assert got == {late[lane]: lane for lane in lanes[:3]}
    assert rows.statuses(process.database) == {"QUEUED": 6, "RUNNING": 3}


@pytest.mark.parametrize("count", [1, 2, 5, 16])
def test_of_each_lane_it_is_told_how_much_was_found_and_how_far_that_reaches(
    process: WorkerProcess, count: int
) -> None:
    """Of a lane that had no more than was wanted, up to now; else no further than the last row."""
    lanes = [Lane(0, name, "", 128) for name in ENDPOINTS[:count]]
    for lane in lanes:
        add_to(process.database, lane, 2, due_in=-60)
    full = take(process.database, process.worker_id, 2, lanes=tuple(lanes))
    assert {lane: found.rows for lane, found in full.found.items()} == dict.fromkeys(lanes, 2)
    for claim in full.claims:
        run_at = claim.claimed_at + timedelta(seconds=claim.due_in_seconds)
        assert full.found[Lane(0, claim.endpoint, "", 128)].seen == run_at
    for left in (1, 0):
        if left:
            add_to(process.database, lanes[0], due_in=-60)
        drained = take(process.database, process.worker_id, 2, lanes=tuple(lanes))
        assert drained.found == dict.fromkeys(lanes, (0, drained.now)) | {lanes[0]: (left, drained.now)}


def test_a_look_finds_each_lane_with_something_due_and_its_instants(database: Database) -> None:
    low, far = Lane(0, "target", "=a\t,b", 3), Lane(2, "other", "", 128)
    for lane, due_in in ((TARGET, -60.0), (TARGET, -5.0), (low, -1.0), (far, 20.0), (far, 40.0)):
        add_to(database, lane, due_in=due_in)
    answer = looked(database, 3)
    instants = sorted((due.lane, round((due.run_at - answer.now).total_seconds())) for due in answer.due)
    assert instants == [(TARGET, -60), (low, -1), (far, 20), (far, 40)]
    assert not answer.is_full
    assert answer.known_until == answer.now + timedelta(seconds=60)
    recent = looked(database, 3, since=answer.now - timedelta(seconds=3), horizon_ms=0)
    assert [due.lane for due in recent.due] == [low]


@pytest.mark.parametrize("shards", [1, PROBED + 2])
def test_what_is_due_at_nearly_one_instant_is_found_as_its_last(database: Database, shards: int) -> None:
    """So whoever claims ahead of that, by more than such an instant is long, is early enough for all of it."""
    lane = Lane(shards - 1, "target", "", 128)
    for due_in in (30.0, 30.001, 30.003):
        add_to(database, lane, due_in=due_in)
    answer = looked(database, shards)
    all_of_it = database.fetch(text("SELECT min(run_at) AS first, max(run_at) AS last FROM executions"))[0]
    assert answer.due[-1] == (lane, all_of_it.last)
    step = timedelta(milliseconds=looks.STEP_MS)
    assert min(due.run_at for due in answer.due) <= all_of_it.first + step


def test_a_look_that_is_full_has_what_came_last_and_says_so(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The front of a backlog does not hide what has just come; lanes between that and the last look may be missed."""
    monkeypatch.setattr(looks, "MOST_ROWS", 3)
    monkeypatch.setattr(looks, "LOOK_1", text(looks.LOOK_1.text.replace("LIMIT 1000", "LIMIT 3")))
    fresh = Lane(0, "other", "", 128)
    add_to(database, TARGET, 9, due_in=-60)
    add_to(database, fresh, 3, due_in=-0.2)
    add_to(database, TARGET, 4, due_in=30)
    answer = looked(database)
    assert {due.lane for due in answer.due if due.run_at <= answer.now} == {fresh}
    assert answer.is_full
    assert timedelta(seconds=29) < answer.known_until - answer.now <= timedelta(seconds=30)
    assert not looked(database, since=answer.now - SLACK + timedelta(seconds=2)).is_full, "the last look saw the others"


def test_a_sweep_finds_every_lane_once(database: Database) -> None:
    """Whatever they are called, and however the last sweep divides them: sixteen in a step, at the first sweep too."""
    keys = ["", "=", "=Z", "=a", "=ä", "=\x01", "=~~~", "=" + "z" * 101]
    lanes = [Lane(0, name, key, 128) for name in ENDPOINTS[:10] for key in keys]
    lanes += [Lane(3, "z" * 128, "=zz", priority) for priority in (0, 1, 255)]
    for lane in lanes:
        add_to(database, lane)
    first, found, _ = swept(database, 4)
    assert sorted(found) == sorted(lanes)
    second, found, _ = swept(database, 4, first)
    assert sorted(found) == sorted(lanes)
    add_to(database, Lane(0, "e00", "=b", 128))
    assert len(swept(database, 4, second)[1]) == len(lanes) + 1
    of_one, found, steps = swept(database)
    assert steps <= len(found) // 16 + 2
    assert swept(database, 1, of_one)[2] <= len(found) // 16 + 2


def test_of_very_many_lanes_a_sweep_keeps_enough_to_divide_the_next_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "MOST_KEPT", 64)
    rows.add_executions(database, 400)
    database.fetch(text("UPDATE executions SET limit_key = '=' || execution_id"))
    first, found, steps = swept(database)
    assert (len(set(found)), len(found), steps) == (400, 400, 400 // 16 + 1)
    assert len(first.lanes(0)) <= 64
    second, found, steps = swept(database, 1, first)
    assert (len(set(found)), len(found)) == (400, 400)
    assert steps <= 400 // 16 * 2
    assert len(second.lanes(0)) <= 64 * 16


def test_a_sweep_that_runs_while_lanes_come_and_go_comes_to_its_end(process: WorkerProcess) -> None:
    for name in ENDPOINTS:
        add_to(process.database, Lane(0, name, "", 128))
    sweep, _, _ = swept(process.database)
    sweep, found = Sweep(1, sweep), set[str]()
    while not sweep.is_over:
        due, _ = sweep.step(process.database, "http")
        found |= {one.lane.endpoint for one in due}
        gone = tuple(Lane(0, name, "", 128) for name in ENDPOINTS[len(found) : len(found) + 3])
        if gone:
            take(process.database, process.worker_id, lanes=gone)
            add_to(process.database, Lane(0, f"{gone[0].endpoint}-more", "", 128))
    assert len(found) >= len(ENDPOINTS) // 2


def test_what_cannot_be_claimed_is_in_no_lane(process: WorkerProcess) -> None:
    for status in ("PENDING", "RUNNING", "SUCCESS"):
        rows.set_status(
            process.database, rows.job_of(process.database, add_to(process.database, TARGET)[0]).job_id, status
        )
    assert (looked(process.database).due, swept(process.database)[1]) == ([], [])
    assert take(process.database, process.worker_id).claims == []


def test_a_lane_from_which_nothing_is_wanted_gives_nothing(process: WorkerProcess) -> None:
    """The arms that a claim of few lanes has besides are such."""
    for key in ("", "=a"):
        add_to(process.database, Lane(0, "", key, 0))
    add_to(process.database, TARGET, 2)
    wanted = [TARGET, Lane(0, "nothing-here", "", 128)]
    assert len(take(process.database, process.worker_id, 1, lanes=tuple(wanted)).claims) == 1
