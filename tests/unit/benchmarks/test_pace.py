"""The most of some instants in any time of a length."""

import pytest

from benchmarks.measures.flow.pace import most_within


@pytest.mark.parametrize(
    ("instants", "most"), [([], 0), ([1.0], 1), ([0.0, 1.0, 1.5, 1.9, 2.0], 3), ([0.0, 0.9, 1.0, 1.8], 3)]
)
def test_the_most_within_a_second(instants: list[float], most: int) -> None:
    assert most_within(instants, 1.0) == most
