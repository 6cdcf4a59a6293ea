"""Cron schedules by example: skipped and repeated times, days, time zones, threads."""

import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from app.kernel.errors import InvalidRequestError
from app.schedule.cron import Schedule
from tests.cases import each_case
from tests.ticks import ticks_between


def local_ticks(text: str, zone: str, begin: datetime, count: int) -> list[str]:
    schedule, found = Schedule.parse(text, zone), []
    for _ in range(count):
        tick = schedule.next_after(begin)
        assert tick is not None
        found.append(schedule.local(tick).strftime("%d %H:%M %z"))
        begin = tick
    return found


SPRING, AUTUMN = datetime(2026, 3, 29, 0, tzinfo=UTC), datetime(2026, 10, 25, 0, tzinfo=UTC) - timedelta(minutes=1)


def test_skipped_time_of_fixed_hours_fires_at_the_end_of_the_gap() -> None:
    assert local_ticks("30 2 * * *", "Europe/Berlin", SPRING, 2) == ["29 03:00 +0200", "30 02:30 +0200"]
    assert local_ticks("0,20,40 2 * * *", "Europe/Berlin", SPRING, 2) == ["29 03:00 +0200", "30 02:00 +0200"]
    assert local_ticks("*/20 2 * * *", "Europe/Berlin", SPRING, 2) == ["29 03:00 +0200", "30 02:00 +0200"]


def test_skipped_time_of_an_hourly_schedule_does_not_fire() -> None:
    assert local_ticks("30 * * * *", "Europe/Berlin", SPRING, 2) == ["29 01:30 +0100", "29 03:30 +0200"]


def test_repeated_time_of_fixed_hours_fires_the_first_time() -> None:
    assert local_ticks("30 2 * * *", "Europe/Berlin", AUTUMN, 2) == ["25 02:30 +0200", "26 02:30 +0100"]
    assert local_ticks("30 */2 * * *", "Europe/Berlin", AUTUMN, 2) == ["25 02:30 +0200", "25 04:30 +0100"]


def test_repeated_time_of_an_hourly_schedule_fires_both_times() -> None:
    assert local_ticks("30 * * * *", "Europe/Berlin", AUTUMN, 3) == [
        "25 02:30 +0200",
        "25 02:30 +0100",
        "25 03:30 +0100",
    ]
    assert len(local_ticks("*/30 0-23 * * *", "Europe/Berlin", AUTUMN, 4)) == 4


def test_repeated_midnight_fires_once() -> None:
    begin = datetime(2024, 11, 3, 3, tzinfo=UTC)  # past: rules of later years change with tzdata
    assert local_ticks("0 0 * * *", "America/Havana", begin, 2) == ["03 00:00 -0400", "04 00:00 -0500"]


def test_skipped_day_fires_once() -> None:
    begin = datetime(2011, 12, 29, 20, tzinfo=UTC)
    assert local_ticks("0 9,12 * * *", "Pacific/Apia", begin, 3) == [
        "29 12:00 -1000",
        "31 00:00 +1400",
        "31 09:00 +1400",
    ]


def test_next_run_is_shown_in_its_zone() -> None:
    schedule = Schedule.parse("0 9 * * MON", "Asia/Kolkata")
    tick = schedule.next_after(datetime(2026, 3, 15, 10, tzinfo=UTC))
    assert tick == datetime(2026, 3, 16, 3, 30, tzinfo=UTC)
    assert schedule.local(tick).isoformat() == "2026-03-16T09:00:00+05:30"


@pytest.mark.parametrize("start", [datetime.min.replace(tzinfo=UTC), datetime(1969, 12, 31, tzinfo=UTC)])
def test_start_before_1970_counts_from_1970(start: datetime) -> None:
    schedule = Schedule.parse("0 0 * * *", "UTC")
    assert schedule.next_after(start) == datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("start", [datetime.max.replace(tzinfo=UTC), datetime(9899, 12, 31, 14, 59, tzinfo=UTC)])
def test_no_tick_exists_at_the_end_of_the_calendar(start: datetime) -> None:
    assert Schedule.parse("0 0 * * *", "Asia/Tokyo").next_after(start) is None


def test_longest_wait_between_leap_days_is_found() -> None:
    schedule = Schedule.parse("0 0 29 2 */7", "UTC")
    assert schedule.next_after(datetime(2280, 3, 1, tzinfo=UTC)) == datetime(2320, 2, 29, tzinfo=UTC)


@each_case(
    "zone", ["", "Mars/Olympus", "europe/berlin", "../UTC", "/etc/passwd", "America", "localtime", "Factory", "UTC\x00"]
)
def test_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        Schedule.parse("* * * * *", zone)
    assert caught.value.status == 400
    assert caught.value.details[0]["pointer"] == "/timezone"


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0 0 13 * FRI", [4, 11, 13, 18, 25]),
        ("0 0 1-7 * */7", [6]),
        ("0 0 1-28 * MON", list(range(1, 29))),
        ("0 0 1-31 * MON", list(range(1, 31))),
        ("0 0 30 * 0-6", list(range(1, 31))),
        ("0 0 */10 * MON", [21]),
    ],
)
def test_day_fields_choose_these_days_of_september_2026(text: str, days: list[int]) -> None:
    begin, end = datetime(2026, 8, 31, 12, tzinfo=UTC), datetime(2026, 9, 30, 12, tzinfo=UTC)
    assert [tick.day for tick in ticks_between(Schedule.parse(text, "UTC"), begin, end)] == days


def test_weekday_still_fires_beside_a_day_that_the_month_lacks() -> None:
    tick = Schedule.parse("0 0 31 2 MON", "UTC").next_after(datetime(2026, 8, 31, tzinfo=UTC))
    assert tick == datetime(2027, 2, 1, tzinfo=UTC)


@pytest.fixture
def _frequent_thread_switches() -> Iterator[None]:
    """Let threads interleave after every few instructions."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("_frequent_thread_switches")
def test_schedule_can_be_shared_between_threads() -> None:
    schedule = Schedule.parse("*/7 * * * *", "Europe/Berlin")
    starts = [SPRING + n * timedelta(minutes=13) for n in range(60)]
    expected = {start: schedule.next_after(start) for start in starts}
    wrong: list[datetime] = []

    def ask(first: int) -> None:
        for start in starts[first:] * 10:
            if schedule.next_after(start) != expected[start]:
                wrong.append(start)  # noqa: PERF401 - threads interleave between the calls

    threads = [threading.Thread(target=ask, args=[n * 10]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
