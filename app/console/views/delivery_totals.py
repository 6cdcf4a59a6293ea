"""Totals of the deliveries of several steps, and their percentiles in words."""

from collections.abc import Sequence

from app.console.views import words
from app.console.views.words import percent
from app.features.rollups.delivery_history import DeliveryCounts, Point
from app.features.rollups.distribution import Distribution
from app.features.rollups.rollup_statements import COUNTS
from schema.rollup_bounds import LATE_MS, TOOK_MS

ON_TIME = 0.999  # share of attempts that should start within BUDGET_MS


def total_of(points: Sequence[Point]) -> tuple[DeliveryCounts | None, int]:
    """Return the sum of all steps and the counted seconds; None if nobody counted."""
    counted = [point.counts for point in points if point.counts is not None]
    seconds = sum(point.counted_seconds for point in points)
    return (_sum_of(counted), seconds) if counted else (None, 0)


def budget_words(on_time: float | None) -> str:
    """Write how much is left of the share of attempts that may be late; empty if nothing started."""
    if on_time is None:
        return ""
    left = round(1 - (1 - on_time) / (1 - ON_TIME), 6)
    rest = f"{percent(left)} are left" if left > 0 else "none is left"
    return f"of the {percent(1 - ON_TIME)} that may be late, {rest}"


def up_to(milliseconds: float | None) -> str:
    """Write a percentile, which is the bound of its class."""
    if milliseconds is None:
        return words.NOTHING
    if milliseconds - 1 in {LATE_MS[-1], TOOK_MS[-1]}:
        return f"> {_bound(milliseconds - 1)}"
    return f"≤ {_bound(milliseconds)}"


def _bound(milliseconds: float) -> str:
    return words.duration(milliseconds).replace(".0 s", " s")


def _sum_of(counted: Sequence[DeliveryCounts]) -> DeliveryCounts:
    late = [sum(each) for each in zip(*(counts.lateness.counts for counts in counted), strict=True)]
    took = [sum(each) for each in zip(*(counts.duration.counts for counts in counted), strict=True)]
    return DeliveryCounts(
        lateness=Distribution.of_lateness(late),
        duration=Distribution.of_duration(took),
        **{name: sum(getattr(counts, name) for counts in counted) for name in COUNTS},
    )
