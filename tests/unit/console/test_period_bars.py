"""Bars of the periods of a list."""

from datetime import UTC, datetime, timedelta

from app.console.views.period_bars import BAR_HEIGHT, period_bars
from app.features.rollups.delivery_history import DeliveryCounts, Point

AT, STEP = datetime(2026, 11, 28, 12, tzinfo=UTC), timedelta(minutes=1)


def point(place: int, attempts: int | None, failed: int = 0) -> Point:
    counts = DeliveryCounts.total([])._replace(attempts=attempts or 0, failed=failed)
    return Point(AT + place * STEP, 60, None if attempts is None else counts, None)


def test_bars_are_scaled_to_the_busiest_step_and_leave_out_empty_ones() -> None:
    first, second = period_bars([point(0, None), point(1, 40, 10), point(2, 0), point(3, 20)], STEP)
    assert (first.place, first.start, first.end) == (1, AT + STEP, AT + 2 * STEP)
    assert (first.height, first.failed_height) == (BAR_HEIGHT, BAR_HEIGHT / 4)
    assert (second.place, second.height, second.failed_height) == (3, BAR_HEIGHT / 2, 0)


def test_few_deliveries_are_seen_beside_many_and_failures_are_not_higher_than_all() -> None:
    many, few = period_bars([point(0, 10_000), point(1, 1, 3)], STEP)
    assert 0 < few.height < many.height
    assert (few.failed, few.failed_height) == (1, few.height)
    assert period_bars([], STEP) == []
