"""Very many partitions: a worker stores a bounded number of them, and every partition gets its turn."""

import tracemalloc

from app.queue.claiming.partition import Partition
from brokers.sharing.partitions import KnownPartitions
from tests.unit.sharing.known_partitions import AHEAD, answer, at, everything, partition, picked, wanting


def test_partitions_of_one_endpoint_are_limited_and_other_endpoints_are_unaffected() -> None:
    """The next full scan finds the remaining partitions: the memory of a worker is bounded."""
    many = [partition("a", key=f"={number}") for number in range(9)]
    partitions = KnownPartitions(1, ahead=AHEAD, max_partitions=5)
    for _ in range(2):
        for each in (*many, partition("b")):
            partitions.found([(each, at(-60.0))], at(0.0), 0.0)
            wanting(partitions, 0.0)
    assert len(partitions) == 6
    assert set(picked(partitions, 0.0)) == {*many[:5], partition("b")}
    answer(partitions, partitions.pick(0.0, everything), 0.0, *[0] * 6)
    partitions.found([(each, at(-60.0)) for each in many[5:]], at(0.0), 0.0)
    assert set(picked(partitions, 0.0)) == set(many[5:])


def test_resting_partitions_make_room_for_other_keys() -> None:
    """Otherwise the keys behind them in the index would wait until the limits of the first keys expire."""
    many = [partition("a", key=f"={number}") for number in range(9)]
    partitions, served = KnownPartitions(1, ahead=AHEAD, max_partitions=5), set[Partition]()
    for _ in range(2):
        partitions.found([(each, at(-60.0)) for each in many], at(0.0), 0.0)
        wanted = partitions.pick(0.0, everything)
        served |= {claim.partition for claim in wanted}
        answer(partitions, wanted, 0.0)
        for claim in wanted:
            partitions.rest(claim.partition, 3600.0, claim.since)
        assert len(partitions) == 5
    assert served == set(many)
    for number in range(18):
        partitions.noticed(partition("a", key=f"=n{number}"), 0.0)
    assert len(partitions) == 5


def test_replaced_partitions_take_no_memory() -> None:
    """Otherwise each key with an hourly rate would take memory for an hour."""
    partitions = KnownPartitions(1, ahead=AHEAD, max_partitions=5)
    tracemalloc.start()
    for number in range(20_000):
        partitions.found([(partition("a", key=f"={number}"), at(-60.0))], at(0.0), 0.0)
        for wanted in partitions.pick(0.0, everything):
            partitions.rest(wanted.partition, 3600.0 + number)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 1_000_000
    assert set(picked(partitions, 24_000.0)) == {partition("a", key=f"={number}") for number in range(19_995, 20_000)}


def test_endpoints_without_known_partitions_take_no_memory() -> None:
    partitions = KnownPartitions(1, ahead=AHEAD)
    tracemalloc.start()
    for number in range(5_000):
        partitions.found([(partition(f"endpoint {number}"), at(-60.0))], at(0.0), 0.0)
        answer(partitions, partitions.pick(0.0, everything), 0.0, 0)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(partitions) == 0
    assert taken < 500_000
