"""The line in which the shards of a queue stand."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from app.executions.claiming.shards import NextDue
from app.executions.low_water import SLACK, SWEEP_SECONDS
from app.formats import EPOCH
from brokers.turns import Turns

SHARDS = 16
INTERVAL = 0.2
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def looked(*due: int) -> Turns:
    turns = Turns(SHARDS, appetite=2, longest_wait=INTERVAL)
    look(turns, 1.0, dict.fromkeys(due, -1.0))
    return turns


def look(turns: Turns, now: float, due_in: dict[int, float]) -> None:
    """Take in a look: in how many seconds each shard has something due."""
    due = {shard: NOW + timedelta(seconds=seconds) for shard, seconds in due_in.items()}
    turns.looked(now, NextDue(NOW, due), ahead=0.0)


def claimed(turns: Turns, shard: int, now: float, *, count: int = 0, limit: int = 2, **more: float) -> None:
    """Take in the answer to a claim at NOW."""
    turns.claimed(shard, now, count=count, limit=limit, due_in=more.get("due_in"), seen_up_to=NOW)


def test_whoever_had_a_turn_starts_again_at_the_end() -> None:
    turns, order = looked(3, 5), []
    for step in range(6):
        shard = turns.next().shard
        assert shard is not None
        order.append(shard)
        claimed(turns, shard, 1.001 + step / 1000, count=2)
    assert order == [3, 5, 3, 5, 3, 5]


def test_hints_that_never_stop_and_a_backlog_leave_a_turn_to_everybody() -> None:
    """The backlog is as deep at each look, and a hint comes with each turn."""
    turns, now, served, looks = looked(0, 1), 2.0, list[int](), 0
    waiting = set(range(2, SHARDS))
    for _ in range(60):
        now += 0.003
        turns.look_now(now)
        shard = turns.next().shard
        if shard is None:
            looks += 1
            look(turns, now, dict.fromkeys({0, 1} | waiting, -1.0))
        else:
            served.append(shard)
            waiting.discard(shard)
            claimed(turns, shard, now, count=2 if shard < 2 else 1)
    assert not waiting
    assert looks > 1
    assert set(served) == set(range(SHARDS))


def test_a_look_leaves_what_is_due_in_its_place() -> None:
    turns = looked(7)
    look(turns, 2.0, {0: -1.0, 7: -1.0})
    assert turns.next().shard == 7


def test_a_shard_is_polled_at_its_instant_though_others_were_polled_meanwhile() -> None:
    turns = Turns(SHARDS, appetite=2, longest_wait=3600.0)
    look(turns, 1.0, {2: 5.0, 9: 3.0, 4: -1.0})
    assert turns.next().shard == 4
    claimed(turns, 4, 1.0, due_in=7.0)
    assert turns.next()[:2] == (pytest.approx(1.02, abs=0.01), None)
    look(turns, 1.02, {2: 4.98, 9: 2.98, 4: 6.98})
    for _ in range(20):
        look(turns, 1.02, {2: 4.98, 9: 2.98, 4: 6.98})
    assert turns.next()[:2] == (pytest.approx(4.0), 9)


@pytest.mark.parametrize("shards", [1, SHARDS])
def test_an_idle_queue_is_polled_once_per_interval_whatever_its_shards(shards: int) -> None:
    turns, polls = Turns(shards, appetite=2, longest_wait=INTERVAL), 0
    while (turn := turns.next()).at < 100.0:
        polls += 1
        if turn.shard is None:
            look(turns, turn.at, {})
        else:
            claimed(turns, turn.shard, turn.at)
    assert 450 < polls < 570


def test_a_full_batch_makes_the_next_one_of_its_shard_bigger() -> None:
    turns = looked(3)
    claimed(turns, 3, 1.0, count=2)
    assert turns.next()[:3] == (1.0, 3, 4)
    claimed(turns, 3, 1.0, count=3, limit=4, due_in=-1.0)
    assert turns.next()[:3] == (1.0, 3, 2)


def test_a_read_begins_shortly_before_what_the_last_one_has_seen() -> None:
    turns = Turns(SHARDS, appetite=2, longest_wait=INTERVAL)
    assert turns.since() == [EPOCH] * SHARDS, "what waits from before this process is found"
    look(turns, 1.0, {3: -60.0, 5: 60.0})
    expected = [NOW - SLACK] * SHARDS
    expected[3] -= timedelta(seconds=60)
    assert turns.since() == expected
    turn = turns.next()
    assert (turn.shard, turn.since) == (3, expected[3])
    claimed(turns, 3, 1.0)
    assert turns.since() == [NOW - SLACK] * SHARDS


@pytest.mark.parametrize("shards", [1, SHARDS])
def test_now_and_then_a_read_begins_at_the_very_beginning(shards: int) -> None:
    """A clock that was set back, or a row that was handed back, is found at the latest by then."""
    turns, sweeps = Turns(shards, appetite=2, longest_wait=INTERVAL), list[float]()
    while (turn := turns.next()).at < 300.0:
        if turns.since()[0] == EPOCH:
            sweeps.append(turn.at)
        if turn.shard is None:
            look(turns, turn.at, {})
        else:
            claimed(turns, turn.shard, turn.at)
    gaps = [later - earlier for earlier, later in itertools.pairwise(sweeps)]
    assert max(gaps) <= SWEEP_SECONDS + 3 * INTERVAL
    assert min(gaps) >= SWEEP_SECONDS / 2


def test_the_shards_are_not_swept_in_step() -> None:
    turns = Turns(SHARDS, appetite=2, longest_wait=INTERVAL)
    swept_together = list[int]()
    while (turn := turns.next()).at < 300.0:
        swept_together.append(turns.since().count(EPOCH))
        look(turns, turn.at, {})
    assert swept_together[0] == SHARDS
    assert max(swept_together[1:]) < SHARDS / 2


def test_the_mark_follows_a_clock_that_was_set_back() -> None:
    turns = Turns(1, appetite=2, longest_wait=INTERVAL)
    for clock in (NOW, NOW - timedelta(hours=1)):
        turns.claimed(0, 1.0, count=0, limit=2, due_in=None, seen_up_to=clock)
        assert turns.since() == [clock - SLACK]
