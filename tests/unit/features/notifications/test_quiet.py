"""Quiet hours, including days with a change of the clocks."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.features.notifications.rules import DAYS, QuietHours
from app.schedule.zones import time_zone
from tests.cases import each_case

BERLIN = "Europe/Berlin"
ZONES = [BERLIN, "America/St_Johns", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia", "UTC"]
TIMES = st.integers(0, 24 * 60 - 1).map(lambda minute: time(minute // 60, minute % 60))


def quiet(begins: str, ends: str, zone: str = BERLIN, days: list[str] | None = None) -> QuietHours:
    value: dict[str, Any] = {"from": begins, "to": ends, "timezone": zone, "days": days}
    return QuietHours.from_json(value)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@each_case(
    ("begins", "ends", "now", "until"),
    [
        ("22:00", "07:00", "2030-01-10T20:59:59", None),
        ("22:00", "07:00", "2030-01-10T21:00:00", "2030-01-11T06:00:00"),
        ("22:00", "07:00", "2030-01-11T05:59:59", "2030-01-11T06:00:00"),
        ("22:00", "07:00", "2030-01-11T06:00:00", None),
        # On 2030-03-31 the hour from 02:00 does not exist: the night is an hour shorter.
        ("22:00", "07:00", "2030-03-30T23:00:00", "2030-03-31T05:00:00"),
        ("22:00", "02:30", "2030-03-31T00:59:00", "2030-03-31T01:30:00"),
        ("02:15", "04:00", "2030-03-31T01:14:59", None),
        ("02:15", "04:00", "2030-03-31T01:15:00", "2030-03-31T02:00:00"),
        # On 2030-10-27 the hour from 02:00 occurs twice: the first beginning and the second end count.
        ("22:00", "07:00", "2030-10-26T23:00:00", "2030-10-27T06:00:00"),
        ("22:00", "02:30", "2030-10-27T00:45:00", "2030-10-27T01:30:00"),
        ("02:15", "04:00", "2030-10-27T00:15:00", "2030-10-27T03:00:00"),
    ],
)
def test_end_of_the_current_quiet_hours(begins: str, ends: str, now: str, until: str | None) -> None:
    assert quiet(begins, ends).until(at(now)) == (None if until is None else at(until))


def test_night_belongs_to_the_day_on_which_it_begins() -> None:
    fridays = quiet("22:00", "07:00", "UTC", ["fri"])
    assert fridays.until(at("2030-01-11T23:00:00")) == at("2030-01-12T07:00:00"), "Friday"
    assert fridays.until(at("2030-01-12T06:00:00")) == at("2030-01-12T07:00:00")
    assert fridays.until(at("2030-01-12T23:00:00")) is None
    assert fridays.until(at("2030-01-11T06:00:00")) is None


@given(
    begins=TIMES,
    ends=TIMES,
    zone=st.sampled_from(ZONES),
    days=st.sets(st.integers(0, 6), min_size=1),
    now=st.datetimes(datetime(2024, 1, 1), datetime(2032, 1, 1)),  # noqa: DTZ001 - becomes UTC below
)
def test_quiet_hours_follow_the_local_wall_clock(
    begins: time, ends: time, zone: str, days: set[int], now: datetime
) -> None:
    if begins == ends:
        return
    hours = QuietHours(begins, ends, frozenset(days), time_zone(zone))
    instant = now.replace(tzinfo=UTC)
    until = hours.until(instant)
    offsets = {(instant + timedelta(hours=hour)).astimezone(hours.zone).utcoffset() for hour in range(-30, 31)}
    if len(offsets) == 1:
        assert (until is not None) == is_quiet_by_wall_clock(hours, instant)
    if until is not None:
        assert instant < until <= instant + timedelta(hours=26)
        assert len(offsets) > 1 or until.astimezone(hours.zone).time() == ends
        assert hours.until(until - timedelta(microseconds=1)) == until


def is_quiet_by_wall_clock(hours: QuietHours, instant: datetime) -> bool:
    local = instant.astimezone(hours.zone)
    clock, day = local.time(), local.weekday()
    if hours.begins < hours.ends:
        return hours.begins <= clock < hours.ends and day in hours.days
    return (clock >= hours.begins and day in hours.days) or (clock < hours.ends and (day - 1) % 7 in hours.days)


def test_rule_without_days_has_quiet_hours_on_all_days() -> None:
    assert quiet("22:00", "07:00").days == frozenset(range(len(DAYS)))
