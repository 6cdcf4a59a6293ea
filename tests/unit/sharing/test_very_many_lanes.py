"""Very many lanes: of how many a worker knows, and that all the others get their turn."""

import tracemalloc

import pytest

from app.queue.claiming.partition import Lane
from brokers.sharing import partitions as lanes_module
from brokers.sharing.partitions import Lanes
from tests.unit.sharing.known_lanes import AHEAD, answer, at, everything, lane, picked


def test_of_an_endpoint_with_very_many_keys_so_many_are_known_of_and_all_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others are found by the next sweep: what a worker remembers is bounded."""
    monkeypatch.setattr(lanes_module, "MOST_LANES", 5)
    many = [lane("a", key=f"={number}") for number in range(9)]
    lanes = Lanes(1, ahead=AHEAD)
    for _ in range(2):
        for one in (*many, lane("b")):
            lanes.swept([(one, at(-60.0))], at(0.0), 0.0)
            lanes.wanting(0.0)
    assert len(lanes) == 6
    assert set(picked(lanes, 0.0)) == {*many[:5], lane("b")}
    answer(lanes, lanes.pick(0.0, everything), 0.0, *[0] * 6)
    lanes.swept([(one, at(-60.0)) for one in many[5:]], at(0.0), 0.0)
    assert set(picked(lanes, 0.0)) == set(many[5:])


def test_of_very_many_keys_those_that_rest_give_their_places_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else whoever comes behind them in the index would wait for as long as their limits do."""
    monkeypatch.setattr(lanes_module, "MOST_LANES", 5)
    many = [lane("a", key=f"={number}") for number in range(9)]
    lanes, served = Lanes(1, ahead=AHEAD), set[Lane]()
    for _ in range(2):
        lanes.swept([(one, at(-60.0)) for one in many], at(0.0), 0.0)
        wanted = lanes.pick(0.0, everything)
        served |= {one.lane for one in wanted}
        answer(lanes, wanted, 0.0)
        for one in wanted:
            lanes.rest(one.lane, 3600.0, one.since)
        assert len(lanes) == 5
    assert served == set(many)
    for number in range(18):
        lanes.noticed(lane("a", key=f"=n{number}"), 0.0)
    assert len(lanes) == 5


def test_lanes_that_gave_their_places_to_others_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each key of a rate per hour would take memory for an hour."""
    monkeypatch.setattr(lanes_module, "MOST_LANES", 5)
    lanes = Lanes(1, ahead=AHEAD)
    tracemalloc.start()
    for number in range(20_000):
        lanes.swept([(lane("a", key=f"={number}"), at(-60.0))], at(0.0), 0.0)
        for wanted in lanes.pick(0.0, everything):
            lanes.rest(wanted.lane, 3600.0 + number)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 1_000_000
    assert set(picked(lanes, 24_000.0)) == {lane("a", key=f"={number}") for number in range(19_995, 20_000)}
