"""Turns of the partitions of a queue: by priorities, endpoints and keys, and what is there for each."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from app.queue.claiming.partition import Partition
from brokers.sharing.partitions import REFUSED_SECONDS
from brokers.sharing.ready_partitions import ONE_IN
from tests.unit.sharing.known_partitions import answer, at, everything, known, next_at, partition, picked


def test_higher_priorities_come_first_and_what_they_leave_is_the_others() -> None:
    partitions = known(
        partition("a", priority=10),
        partition("b", priority=200),
        partition("c", priority=200),
        partition("a", priority=0),
    )
    assert [one.priority for one in picked(partitions, 0.0)] == [200, 200, 10]
    assert [one.priority for one in picked(partitions, 0.0, arms=2)] == [200, 200]


@given(st.lists(st.integers(1, 40), min_size=200, max_size=200), st.integers(1, 5))
def test_lower_priorities_get_one_of_eight_rows(rooms: list[int], low: int) -> None:
    """The work never ends, and there is room for some rows at a time."""
    partitions = known(
        partition("high", priority=200), *(partition(f"low-{number}", priority=number) for number in range(low))
    )
    claimed: Counter[str] = Counter()
    for room in rooms:
        wanted = partitions.pick(0.0, everything, most=room)
        assert sum(one.quota for one in wanted) <= room
        claimed.update({one.partition.endpoint: one.quota for one in wanted})
        partitions.claimed(wanted, {one.partition: (one.quota, at(0.0)) for one in wanted}, at(0.0), 0.0)
    rows = claimed.total()
    assert abs(rows - claimed["high"] - rows / ONE_IN) <= max(rooms) + 1
    assert all(claimed[f"low-{number}"] >= rows / ONE_IN / low - 2 * max(rooms) for number in range(low))


def test_rows_of_the_highest_priority_count_only_while_others_wait() -> None:
    partitions = known(partition("high", priority=200), partition("low", priority=1))
    answer(partitions, partitions.pick(0.0, everything, most=30), 0.0, 27, 0)
    for _ in range(20):
        answer(partitions, partitions.pick(0.0, everything), 0.0)
    partitions.noticed(partition("low", priority=1), 0.0)
    assert [one.partition.endpoint for one in partitions.pick(0.0, everything, most=1)] == ["high"]


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 6), min_size=1), st.integers(1, 16))
def test_endpoints_take_turns_and_so_do_the_keys_of_each(keys: dict[str, int], arms: int) -> None:
    """Whoever has many keys is served no more often than the others, and no key more often than another."""
    partitions = known(
        *(partition(endpoint, key=f"={number}") for endpoint, count in keys.items() for number in range(count))
    )
    served: Counter[Partition] = Counter()
    for _ in range(60):
        wanted = partitions.pick(0.0, everything, arms)
        assert len({one.partition for one in wanted}) == len(wanted) == min(arms, sum(keys.values()))
        of_each = Counter(one.partition.endpoint for one in wanted)
        assert all(of_each[name] in (most, most - 1, keys[name]) for most in [max(of_each.values())] for name in keys)
        served.update(one.partition for one in wanted)
        answer(partitions, wanted, 0.0)
    for endpoint, count in keys.items():
        times = [served[partition(endpoint, key=f"={number}")] for number in range(count)]
        assert max(times) - min(times) <= 1


def test_whoever_was_served_longest_ago_comes_first_also_when_it_had_nothing_meanwhile() -> None:
    partitions = known(partition("busy"))
    answer(partitions, partitions.pick(0.0, everything, 1), 0.0)
    partitions.noticed(partition("new"), 0.0)
    wanted = partitions.pick(0.0, everything, 1)
    assert [one.partition.endpoint for one in wanted] == ["new"]
    answer(partitions, wanted, 0.0, 0)
    partitions.noticed(partition("new"), 0.0)
    assert picked(partitions, 0.0, 1) == [partition("busy")]
    assert picked(partitions, 0.0, 1) == [partition("new")]


def test_what_is_there_for_a_claim_is_divided_between_its_partitions_and_what_one_leaves_is_the_others() -> None:
    partitions = known(*(partition(name) for name in "abcdefghij"))
    assert [one.quota for one in partitions.pick(0.0, everything)] == [20] * 10
    room = Counter(dict.fromkeys("abc", 100) | dict.fromkeys("defghij", 1))

    def take(one: Partition, most: int) -> int:
        got = min(most, room[one.endpoint])
        room[one.endpoint] -= got
        return got

    few = partitions.pick(0.0, take)
    assert {one.partition.endpoint: one.quota for one in few} == dict.fromkeys("abc", 25) | dict.fromkeys("defghij", 1)


def test_a_partition_alone_without_room_is_not_wanted() -> None:
    partitions = known(partition())
    assert partitions.pick(0.0, lambda _partition, _most: 0) == []
    assert next_at(partitions) == REFUSED_SECONDS


def test_an_endpoint_without_room_is_asked_once_and_again_a_little_later() -> None:
    partitions = known(*(partition("a", key=f"={number}", priority=number % 2) for number in range(50)))
    asked = []
    assert partitions.pick(0.0, lambda one, _most: asked.append(one) or 0) == []  # type: ignore[func-returns-value]
    assert len(asked) == 1
    assert next_at(partitions) == REFUSED_SECONDS
    assert picked(partitions, 0.0)[0] != asked[0], "the room may have been that of the key"
