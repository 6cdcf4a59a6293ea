"""Watermarks of readers, and the pace of their full scans."""

from datetime import timedelta

import pytest

from app.kernel.formats import EPOCH
from app.queue.executions.watermark import SLACK, LowWater

CLOCK = EPOCH + timedelta(days=20_000)


@pytest.mark.parametrize(
    ("lasted", "later", "is_scan"), [(0.002, 0.2, True), (0.2, 2.0, False), (0.2, 12.0, True), (9.0, 31.0, True)]
)
def test_full_scans_take_two_percent_of_the_time(lasted: float, later: float, is_scan: bool) -> None:
    mark = LowWater()
    mark.advance(CLOCK, 0.0, lasted)
    assert mark.since == CLOCK - SLACK
    mark.advance(CLOCK, lasted + later, lasted + later)
    assert (mark.since == EPOCH) == is_scan
