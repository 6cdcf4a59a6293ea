"""Ranges: the step that is chosen by the length and the age of a period."""

from datetime import UTC, datetime, timedelta

import pytest

from app.features.rollups.delivery_history import MAX_POINTS, USUAL_POINTS, Range

NOW = datetime(2026, 3, 15, 12, 34, 56, 789_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("last", "step_s", "level"),
    [
        (timedelta(minutes=5), 10, 10),
        (timedelta(hours=1), 10, 10),
        (timedelta(hours=6), 60, 60),
        (timedelta(hours=24), 300, 60),
        (timedelta(days=3), 900, 60),
        (timedelta(days=7), 3600, 3600),
        (timedelta(days=30), 3600, 3600),
        (timedelta(days=90), 21_600, 3600),
        (timedelta(days=2_000), 86_400, 3600),
    ],
)
def test_step_is_chosen_from_the_slots_that_are_kept(last: timedelta, step_s: int, level: int) -> None:
    found = Range.of(NOW - last, NOW, 0, NOW)
    assert (found.step_s, found.level) == (step_s, level)
    assert found.since <= NOW - last
    assert found.until >= NOW
    assert found.until - found.since < last + timedelta(seconds=2 * step_s)
    assert found.steps <= max(USUAL_POINTS + 1, min(2_001, found.steps)) <= max(MAX_POINTS, 2_001)


def test_short_period_long_ago_is_shown_in_the_slots_that_are_left() -> None:
    since = NOW - timedelta(hours=5)
    assert Range.of(since, since + timedelta(minutes=30), 0, NOW).step_s == 60
    assert Range.of(NOW - timedelta(days=10), NOW - timedelta(days=10, minutes=-30), 0, NOW).step_s == 3600


def test_each_instant_of_a_step_has_its_place() -> None:
    found = Range.of(NOW - timedelta(hours=1), NOW, 60, NOW)
    places = [found.place(found.at(number) + timedelta(seconds=59)) for number in range(found.steps)]
    assert places == [*range(found.steps)]
