"""Turns of the lanes of a queue: by priorities, endpoints and keys, and what is there for each."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from app.queue.claiming.partition import Lane
from brokers.sharing.partitions import REFUSED_SECONDS
from brokers.sharing.ready_partitions import ONE_IN
from tests.unit.sharing.known_lanes import answer, at, everything, known, lane, picked


def test_higher_priorities_come_first_and_what_they_leave_is_the_others() -> None:
    lanes = known(lane("a", priority=10), lane("b", priority=200), lane("c", priority=200), lane("a", priority=0))
    assert [one.priority for one in picked(lanes, 0.0)] == [200, 200, 10]
    assert [one.priority for one in picked(lanes, 0.0, arms=2)] == [200, 200]


@given(st.lists(st.integers(1, 40), min_size=200, max_size=200), st.integers(1, 5))
def test_lower_priorities_get_one_of_eight_rows(rooms: list[int], low: int) -> None:
    """The work never ends, and there is room for some rows at a time."""
    lanes = known(lane("high", priority=200), *(lane(f"low-{number}", priority=number) for number in range(low)))
    claimed: Counter[str] = Counter()
    for room in rooms:
        wanted = lanes.pick(0.0, everything, most=room)
        assert sum(one.quota for one in wanted) <= room
        claimed.update({one.lane.endpoint: one.quota for one in wanted})
        lanes.claimed(wanted, {one.lane: (one.quota, at(0.0)) for one in wanted}, at(0.0), 0.0)
    rows = claimed.total()
    assert abs(rows - claimed["high"] - rows / ONE_IN) <= max(rooms) + 1
    assert all(claimed[f"low-{number}"] >= rows / ONE_IN / low - 2 * max(rooms) for number in range(low))


def test_rows_of_the_highest_priority_count_only_while_others_wait() -> None:
    lanes = known(lane("high", priority=200), lane("low", priority=1))
    answer(lanes, lanes.pick(0.0, everything, most=30), 0.0, 27, 0)
    for _ in range(20):
        answer(lanes, lanes.pick(0.0, everything), 0.0)
    lanes.noticed(lane("low", priority=1), 0.0)
    assert [one.lane.endpoint for one in lanes.pick(0.0, everything, most=1)] == ["high"]


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 6), min_size=1), st.integers(1, 16))
def test_endpoints_take_turns_and_so_do_the_keys_of_each(keys: dict[str, int], arms: int) -> None:
    """Whoever has many keys is served no more often than the others, and no key more often than another."""
    lanes = known(*(lane(endpoint, key=f"={number}") for endpoint, count in keys.items() for number in range(count)))
    served: Counter[Lane] = Counter()
    for _ in range(60):
        wanted = lanes.pick(0.0, everything, arms)
        assert len({one.lane for one in wanted}) == len(wanted) == min(arms, sum(keys.values()))
        of_each = Counter(one.lane.endpoint for one in wanted)
        assert all(of_each[name] in (most, most - 1, keys[name]) for most in [max(of_each.values())] for name in keys)
        served.update(one.lane for one in wanted)
        answer(lanes, wanted, 0.0)
    for endpoint, count in keys.items():
        times = [served[lane(endpoint, key=f"={number}")] for number in range(count)]
        assert max(times) - min(times) <= 1


def test_whoever_was_served_longest_ago_comes_first_also_when_it_had_nothing_meanwhile() -> None:
    lanes = known(lane("busy"))
    answer(lanes, lanes.pick(0.0, everything, 1), 0.0)
    lanes.noticed(lane("new"), 0.0)
    wanted = lanes.pick(0.0, everything, 1)
    assert [one.lane.endpoint for one in wanted] == ["new"]
    answer(lanes, wanted, 0.0, 0)
    lanes.noticed(lane("new"), 0.0)
    assert picked(lanes, 0.0, 1) == [lane("busy")]
    assert picked(lanes, 0.0, 1) == [lane("new")]


def test_what_is_there_for_a_claim_is_divided_between_its_lanes_and_what_one_leaves_is_the_others() -> None:
    lanes = known(*(lane(name) for name in "abcdefghij"))
    assert [one.quota for one in lanes.pick(0.0, everything)] == [20] * 10
    room = Counter(dict.fromkeys("abc", 100) | dict.fromkeys("defghij", 1))

    def take(one: Lane, most: int) -> int:
        got = min(most, room[one.endpoint])
        room[one.endpoint] -= got
        return got

    few = lanes.pick(0.0, take)
    assert {one.lane.endpoint: one.quota for one in few} == dict.fromkeys("abc", 25) | dict.fromkeys("defghij", 1)


def test_a_lane_alone_without_room_is_not_wanted() -> None:
    lanes = known(lane())
    assert lanes.pick(0.0, lambda _lane, _most: 0) == []
    assert lanes.next_at() == REFUSED_SECONDS


def test_an_endpoint_without_room_is_asked_once_and_again_a_little_later() -> None:
    lanes = known(*(lane("a", key=f"={number}", priority=number % 2) for number in range(50)))
    asked = []
    assert lanes.pick(0.0, lambda one, _most: asked.append(one) or 0) == []  # type: ignore[func-returns-value]
    assert len(asked) == 1
    assert lanes.next_at() == REFUSED_SECONDS
    assert picked(lanes, 0.0)[0] != asked[0], "the room may have been that of the key"
