"""Pictures of a day: hours, bars and strips."""

from datetime import date

from app.console.views.day_strip import BAR_HEIGHT, Band, Dash, Strip, bars_of, hours_of, strip_of
from app.schedule.day import Day

PLAIN, SPRING = Day.of(date(2026, 11, 28), "Europe/Berlin"), Day.of(date(2026, 3, 29), "Europe/Berlin")


def test_hours_stand_at_their_minutes() -> None:
    assert [(mark.at, mark.label) for mark in hours_of(PLAIN)][:3] == [(0, "00"), (180, "03"), (360, "06")]
    assert [(mark.at, mark.label) for mark in hours_of(SPRING)][:3] == [(0, "00"), (120, "03"), (300, "06")]


def test_bars_are_as_high_as_their_busiest_minute() -> None:
    by_minute = [0] * 1440
    by_minute[120], by_minute[121], by_minute[600] = 8, 2, 4
    two, ten = bars_of(PLAIN, by_minute)
    assert (two.at, two.label, two.starts, two.most, two.height) == (120, "02:00", 10, 8, BAR_HEIGHT)
    assert (ten.at, ten.label, ten.height) == (600, "10:00", BAR_HEIGHT / 2)
    assert bars_of(PLAIN, [0] * 1440) == []


def test_frequent_starts_are_a_band_and_others_are_ticks() -> None:
    hourly = sum(1 << 60 * hour for hour in range(24))
    assert strip_of(hourly) == Strip((Dash("M0 5H1384", 56),), ())
    every_minute = (1 << 120) - (1 << 60)
    assert strip_of(every_minute) == Strip((), (Band(60, 60),))
    assert strip_of(1 << 120) == Strip((Dash("M120 5H124", 4),), ())
