"""Distributions by classes: percentiles and shares, and the bounds that they share with the metrics."""

from itertools import pairwise

import pytest

from app.features.rollups.distribution import Distribution
from app.kernel.metrics import series
from schema.rollup_bounds import LATE_COLUMNS, LATE_MS, STEPS_S, TOOK_COLUMNS, TOOK_MS


def test_bounds_are_those_of_the_metrics() -> None:
    assert [bound / 1000 for bound in LATE_MS] == [*series.LATENESS.buckets]
    assert [bound / 1000 for bound in TOOK_MS] == [*series.DURATION.buckets]


def test_each_level_is_a_multiple_of_the_one_below() -> None:
    assert [longer % shorter for shorter, longer in pairwise(STEPS_S)] == [0, 0]


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ({}, (None, None, None)),
        ({0: 1}, (1, 1, 1)),
        ({0: 95, 3: 4, 15: 1}, (1, 1, 25)),
        ({0: 50, 1: 45, 15: 5}, (1, 5, 3_600_001)),
    ],
)
def test_percentile_is_the_bound_of_its_class(counts: dict[int, int], found: tuple[int | None, ...]) -> None:
    late = Distribution.of_lateness([counts.get(number, 0) for number in range(len(LATE_COLUMNS))])
    assert (late.percentile(0.5), late.percentile(0.95), late.percentile(0.99)) == found


def test_share_within_a_bound() -> None:
    took = Distribution.of_duration([3, 0, 1, *(0 for _ in TOOK_COLUMNS[3:])])
    assert (took.within(5), took.within(25), took.within(300_000)) == (0.75, 1.0, 1.0)
    assert Distribution.of_duration([0 for _ in TOOK_COLUMNS]).within(5) is None
