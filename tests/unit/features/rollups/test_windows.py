"""Windows: covered by the longest slots that are computed, each slot once."""

from datetime import UTC, datetime, timedelta

import pytest

from app.features.rollups.endpoint_rollups import PARTS, pieces
from app.features.rollups.rollup_slots import floored
from schema.rollup_bounds import STEPS_S

NOW = datetime(2026, 3, 15, 12, 34, 56, 789_000, tzinfo=UTC)
REACHED = {step: floored(NOW - timedelta(seconds=3), step) for step in STEPS_S}


@pytest.mark.parametrize("window", [timedelta(minutes=5), timedelta(hours=1), timedelta(hours=24), timedelta(days=30)])
def test_window_is_covered_once(window: timedelta) -> None:
    found = pieces(NOW - window, NOW, REACHED)
    assert [one.until for one in found[:-1]] == [other.since for other in found[1:]]
    assert found[-1].until == REACHED[10]
    assert found[0].since <= NOW - window
    assert {each.part for each in found} == {*range(PARTS)}
    assert [each.step_s for each in found] == sorted((each.step_s for each in found), reverse=True)


def test_longer_windows_use_longer_slots() -> None:
    longest = [pieces(NOW - timedelta(minutes=minutes), NOW, REACHED)[0].step_s for minutes in (30, 31, 360, 361)]
    assert longest == [10, 60, 60, 3600]


def test_nothing_covers_a_window_before_the_first_slot() -> None:
    assert pieces(NOW - timedelta(hours=1), NOW, {}) == []
    assert pieces(NOW - timedelta(hours=1), NOW, dict.fromkeys(STEPS_S, NOW - timedelta(days=1))) == []
