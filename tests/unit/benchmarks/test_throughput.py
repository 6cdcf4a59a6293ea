"""Largest number of instants within any window of a given length."""

import pytest

from benchmarks.measures.flow.throughput import most_within


@pytest.mark.parametrize(
    ("instants", "most"), [([], 0), ([1.0], 1), ([0.0, 1.0, 1.5, 1.9, 2.0], 3), ([0.0, 0.9, 1.0, 1.8], 3)]
)
def test_largest_number_within_a_second(instants: list[float], most: int) -> None:
    assert most_within(instants, 1.0) == most
