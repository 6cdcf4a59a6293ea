"""Numbers, durations and instants in words."""

from datetime import UTC, datetime, timedelta

import pytest

from app.console.views import words
from app.console.views.status_words import status_of
from app.schedule.zones import time_zone
from schema import states

NOW = datetime(2026, 11, 28, 12, 3, 11, tzinfo=UTC)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, words.NOTHING),
        (0, "0 ms"),
        (0.4, "< 1 ms"),
        (84, "84 ms"),
        (999.6, "1000 ms"),
        (5000, "5.0 s"),
        (59_940, "59.9 s"),
        (59_990, "1 min"),
        (195_000, "3 min 15 s"),
        (3_600_000, "1 h"),
        (3_661_000, "1 h 1 min"),
        (187_200_000, "2 d 4 h"),
        (-1500, "-1.5 s"),
    ],
)
def test_duration_has_two_units_at_most(milliseconds: float | None, text: str) -> None:
    assert words.duration(milliseconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.5, "now"), (41, "41 s ago"), (-41, "in 41 s"), (190, "3 min ago"), (7200, "2 h ago"), (-172_900, "in 2 d")],
)
def test_distance_of_an_instant_has_one_unit(seconds: float, text: str) -> None:
    assert words.ago(NOW - timedelta(seconds=seconds), NOW) == text


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (None, words.NOTHING),
        (NOW, "12:03:11"),
        (NOW.replace(day=3), "3 Nov 12:03:11"),
        (NOW.replace(year=2025), "28 Nov 2025 12:03"),
    ],
)
def test_instant_has_a_date_unless_it_is_of_today(at: datetime | None, text: str) -> None:
    assert words.instant(at, NOW) == text


def test_instant_is_written_in_the_zone_of_the_reader() -> None:
    now = datetime(2026, 3, 29, 0, 30, tzinfo=UTC).astimezone(time_zone("Europe/Berlin"))
    before_the_change, after_it = datetime(2026, 3, 29, 0, 59, tzinfo=UTC), datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    assert [words.instant(at, now) for at in (before_the_change, after_it)] == ["01:59:00", "03:00:00"]
    assert words.instant(datetime(2026, 3, 28, 22, 59, tzinfo=UTC), now) == "28 Mar 23:59:00"
    assert words.instant(datetime(2026, 3, 28, 23, 1, tzinfo=UTC), now) == "00:01:00"
    assert words.full_instant(after_it.astimezone(now.tzinfo)) == "2026-03-29 01:00:00.000 UTC"


@pytest.mark.parametrize(
    ("share", "text"),
    [(None, words.NOTHING), (0, "0.0 %"), (0.0002, "< 0.1 %"), (0.061, "6.1 %"), (0.99999, "99.9 %"), (1, "100.0 %")],
)
def test_share_that_is_not_whole_is_never_written_as_none_or_all(share: float | None, text: str) -> None:
    assert words.percent(share) == text


def test_number_that_ended_at_its_bound_says_so() -> None:
    assert [words.number(1204), words.number(10_000, or_more=True), words.number(None)] == [
        "1,204",
        "10,000+",
        words.NOTHING,
    ]


def test_each_status_of_the_service_has_a_tone_of_its_own() -> None:
    known = [*states.ExecutionStatus, *states.BreakerState]
    assert {str(each): status_of(each).tone for each in known} | {"CANCELLED": "off"} == {
        "PENDING": "wait",
        "QUEUED": "wait",
        "RUNNING": "busy",
        "RETRYING": "warn",
        "SUCCESS": "good",
        "FAILED": "bad",
        "CANCELLED": "off",
        "open": "bad",
        "half_open": "warn",
        "closed": "good",
    }
