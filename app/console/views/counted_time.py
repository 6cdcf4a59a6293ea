"""Counted time of the steps of a chart; pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from app.features.rollups.delivery_history import Point


def counted_ends(points: Sequence[Point], step: timedelta) -> list[datetime]:
    """Return the end of each step. From the latest counted step on, it is the end of the counted time."""
    ends = [point.at + step for point in points]
    counted = [place for place, point in enumerate(points) if point.counts is not None]
    if counted:
        latest = counted[-1]
        end = points[latest].at + timedelta(seconds=points[latest].counted_seconds)
        ends[latest:] = [end] * (len(ends) - latest)
    return ends
