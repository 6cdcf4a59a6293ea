"""The line in which the shards of a queue stand."""

import pytest

from brokers.turns import Turns

SHARDS = 16
INTERVAL = 0.2


def looked(*due: int) -> Turns:
    turns = Turns(SHARDS, appetite=2, longest_wait=INTERVAL)
    turns.looked(1.0, dict.fromkeys(due, -1.0))
    return turns


def test_whoever_had_a_turn_starts_again_at_the_end() -> None:
    turns, order = looked(3, 5), []
    for step in range(6):
        shard = turns.next().shard
        assert shard is not None
        order.append(shard)
        turns.claimed(shard, 1.001 + step / 1000, count=2, limit=2, due_in=None)
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
            turns.looked(now, dict.fromkeys({0, 1} | waiting, -1.0))
        else:
            served.append(shard)
            waiting.discard(shard)
            turns.claimed(shard, now, count=2 if shard < 2 else 1, limit=2, due_in=None)
    assert not waiting
    assert looks > 1
    assert set(served) == set(range(SHARDS))


def test_a_look_leaves_what_is_due_in_its_place() -> None:
    turns = looked(7)
    turns.looked(2.0, {0: -1.0, 7: -1.0})
    assert turns.next().shard == 7


def test_a_shard_is_polled_at_its_instant_though_others_were_polled_meanwhile() -> None:
    turns = Turns(SHARDS, appetite=2, longest_wait=3600.0)
    turns.looked(1.0, {2: 5.0, 9: 3.0, 4: -1.0})
    assert turns.next().shard == 4
    turns.claimed(4, 1.0, count=0, limit=2, due_in=7.0)
    assert turns.next()[:2] == (pytest.approx(1.02, abs=0.01), None)
    turns.looked(1.02, {2: 4.98, 9: 2.98, 4: 6.98})
    for _ in range(20):
        turns.looked(1.02, {2: 4.98, 9: 2.98, 4: 6.98})
    assert turns.next()[:2] == (pytest.approx(4.0), 9)


@pytest.mark.parametrize("shards", [1, SHARDS])
def test_an_idle_queue_is_polled_once_per_interval_whatever_its_shards(shards: int) -> None:
    turns, polls = Turns(shards, appetite=2, longest_wait=INTERVAL), 0
    while (turn := turns.next()).at < 100.0:
        polls += 1
        if turn.shard is None:
            turns.looked(turn.at, {})
        else:
            turns.claimed(turn.shard, turn.at, count=0, limit=2, due_in=None)
    assert 450 < polls < 570


def test_a_full_batch_makes_the_next_one_of_its_shard_bigger() -> None:
    turns = looked(3)
    turns.claimed(3, 1.0, count=2, limit=2, due_in=None)
    assert turns.next() == (1.0, 3, 4)
    turns.claimed(3, 1.0, count=3, limit=4, due_in=-1.0)
    assert turns.next() == (1.0, 3, 2)
