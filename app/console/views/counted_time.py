"""Counted time of the steps of a chart; pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from app.features.rollups.delivery_history import Point


def counted_ends(points: Sequence[Point], step: timedelta) -> list[datetime]:
    """Return the end of each step; of the latest counted step, the end of the part that is counted already."""
    counted = [place for place, point in enumerate(points) if point.counts is not None]
    latest = counted[-1] if counted else None
    return [
        point.at + (timedelta(seconds=point.counted_seconds) if place == latest else step)
        for place, point in enumerate(points)
    ]
