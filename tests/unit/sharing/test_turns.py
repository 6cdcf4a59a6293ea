"""Turns of the partitions of a queue: order by priorities, endpoints and keys, and division of the free slots."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from app.queue.claiming.partition import Partition
from brokers.sharing.partitions import REFUSED_SECONDS
from brokers.sharing.ready_partitions import ONE_IN
from tests.unit.sharing.known_partitions import answer, at, everything, known, next_at, partition, picked


def test_higher_priorities_come_first_and_leave_the_rest_to_lower_priorities() -> None:
    partitions = known(
        partition("a", priority=10),
        partition("b", priority=200),
        partition("c", priority=200),
        partition("a", priority=0),
    )
    assert [partition_.priority for partition_ in picked(partitions, 0.0)] == [200, 200, 10]
    assert [partition_.priority for partition_ in picked(partitions, 0.0, arms=2)] == [200, 200]


@given(st.lists(st.integers(1, 40), min_size=200, max_size=200), st.integers(1, 5))
def test_lower_priorities_get_one_of_eight_rows(rooms: list[int], low: int) -> None:
    """The backlogs never end, and a few slots are free at a time."""
    partitions = known(
        partition("high", priority=200), *(partition(f"low-{number}", priority=number) for number in range(low))
    )
    claimed: Counter[str] = Counter()
    for room in rooms:
        wanted = partitions.pick(0.0, everything, most=room)
        assert sum(claim.quota for claim in wanted) <= room
        claimed.update({claim.partition.endpoint: claim.quota for claim in wanted})
        partitions.claimed(wanted, {claim.partition: (claim.quota, at(0.0)) for claim in wanted}, at(0.0), 0.0)
    rows = claimed.total()
    assert abs(rows - claimed["high"] - rows / ONE_IN) <= max(rooms) + 1
    assert all(claimed[f"low-{number}"] >= rows / ONE_IN / low - 2 * max(rooms) for number in range(low))


def test_rows_of_the_highest_priority_count_only_while_lower_priorities_wait() -> None:
    partitions = known(partition("high", priority=200), partition("low", priority=1))
    answer(partitions, partitions.pick(0.0, everything, most=30), 0.0, 27, 0)
    for _ in range(20):
        answer(partitions, partitions.pick(0.0, everything), 0.0)
    partitions.noticed(partition("low", priority=1), 0.0)
    assert [claim.partition.endpoint for claim in partitions.pick(0.0, everything, most=1)] == ["high"]


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 6), min_size=1), st.integers(1, 16))
def test_endpoints_take_turns_and_so_do_the_keys_of_each_endpoint(keys: dict[str, int], arms: int) -> None:
    """An endpoint with many keys is served as often as any other endpoint, and its keys equally often."""
    partitions = known(
        *(partition(endpoint, key=f"={number}") for endpoint, count in keys.items() for number in range(count))
    )
    served: Counter[Partition] = Counter()
    for _ in range(60):
        wanted = partitions.pick(0.0, everything, arms)
        assert len({claim.partition for claim in wanted}) == len(wanted) == min(arms, sum(keys.values()))
        of_each = Counter(claim.partition.endpoint for claim in wanted)
        assert all(of_each[name] in (most, most - 1, keys[name]) for most in [max(of_each.values())] for name in keys)
        served.update(claim.partition for claim in wanted)
        answer(partitions, wanted, 0.0)
    for endpoint, count in keys.items():
        times = [served[partition(endpoint, key=f"={number}")] for number in range(count)]
        assert max(times) - min(times) <= 1


def test_partition_served_longest_ago_comes_first_even_after_an_empty_claim() -> None:
    partitions = known(partition("busy"))
    answer(partitions, partitions.pick(0.0, everything, 1), 0.0)
    partitions.noticed(partition("new"), 0.0)
    wanted = partitions.pick(0.0, everything, 1)
    assert [claim.partition.endpoint for claim in wanted] == ["new"]
    answer(partitions, wanted, 0.0, 0)
    partitions.noticed(partition("new"), 0.0)
    assert picked(partitions, 0.0, 1) == [partition("busy")]
    assert picked(partitions, 0.0, 1) == [partition("new")]


def test_slots_of_a_claim_are_divided_between_its_partitions_and_unused_slots_are_divided_again() -> None:
    partitions = known(*(partition(name) for name in "abcdefghij"))
    assert [claim.quota for claim in partitions.pick(0.0, everything)] == [20] * 10
    room = Counter(dict.fromkeys("abc", 100) | dict.fromkeys("defghij", 1))

    def take(partition_: Partition, most: int) -> int:
        got = min(most, room[partition_.endpoint])
        room[partition_.endpoint] -= got
        return got

    few = partitions.pick(0.0, take)
    assert {claim.partition.endpoint: claim.quota for claim in few} == dict.fromkeys("abc", 25) | dict.fromkeys(
        "defghij", 1
    )


def test_partition_without_free_slots_is_not_wanted() -> None:
    partitions = known(partition())
    assert partitions.pick(0.0, lambda _partition, _most: 0) == []
    assert next_at(partitions) == REFUSED_SECONDS


def test_endpoint_without_free_slots_is_asked_once_and_again_a_little_later() -> None:
    partitions = known(*(partition("a", key=f"={number}", priority=number % 2) for number in range(50)))
    asked = []
    assert partitions.pick(0.0, lambda chosen, _most: asked.append(chosen) or 0) == []  # type: ignore[func-returns-value]
    assert len(asked) == 1
    assert next_at(partitions) == REFUSED_SECONDS
    assert picked(partitions, 0.0)[0] != asked[0], "another key must be tried first, since the key may have been full"
