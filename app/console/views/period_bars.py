"""Periods of a list: bars of the deliveries in equal steps of time, of which a person chooses one."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from app.console.views.counted_time import counted_ends
from app.features.rollups.delivery_history import Point

BAR_HEIGHT = 40.0
_LOWEST = 1.5  # so that a single delivery is seen


class PeriodBar(NamedTuple):
    """A step with deliveries: its place from the left, its counts and the heights of both."""

    place: int
    start: datetime
    end: datetime
    attempts: int
    failed: int
    height: float
    failed_height: float


def period_bars(points: Sequence[Point], step: timedelta) -> list[PeriodBar]:
    """Return the steps with attempts, scaled to the busiest one; `failed` counts attempts after which none follows."""
    ends = counted_ends(points, step)
    counted = [(place, point.at, point.counts) for place, point in enumerate(points) if point.counts is not None]
    most = max((counts.attempts for _, _, counts in counted), default=0)
    return [
        PeriodBar(
            *(place, at, ends[place], counts.attempts, failed),
            *(_height(counts.attempts, most), _height(failed, most)),
        )
        for place, at, counts in counted
        if counts.attempts
        for failed in (min(counts.failed, counts.attempts),)
    ]


def _height(count: int, most: int) -> float:
    return round(max(_LOWEST, BAR_HEIGHT * count / most), 1) if count else 0.0
