"""Spread of schedules: the peak never rises, and schedules keep the number of starts a day."""

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.schedule.day import Day, starts_on
from app.schedule.day_load import DayLoad
from app.schedule.spread import offsets, proposed, shifted, unmovable
from app.schedule.timetable import Timetable
from tests.clock_changes import ZONES

LONG_AGO = datetime(2019, 1, 1, tzinfo=UTC)


def cron(text: str, zone: str = "Europe/Berlin") -> Timetable:
    return Timetable(cron=text, timezone=zone, starts_at=LONG_AGO)


def every(minutes: float) -> Timetable:
    return Timetable(every_ms=int(minutes * 60_000), starts_at=LONG_AGO)


tables = st.one_of(
    st.builds(
        cron,
        st.sampled_from(
            ["0 2 * * *", "@daily", "30 2 * * *", "0,30 1-3 * * *", "*/10 * * * *", "*/10 2 * * *", "59 23 1 * MON"]
        ),
        st.sampled_from(ZONES),
    ),
    st.builds(every, st.sampled_from([0.5, 1, 2, 7, 60, 1440])),
)
days = st.builds(Day.of, st.dates(date(2026, 1, 1), date(2027, 12, 31)), st.sampled_from(ZONES))


@given(day=days, found=st.lists(tables, max_size=12))
def test_peak_never_rises_and_starts_are_kept(day: Day, found: list[Timetable]) -> None:
    given = [(table, starts_on(day, table), LONG_AGO) for table in found]
    before, after = DayLoad(day.minutes), DayLoad(day.minutes)
    for _, starts, _ in given:
        before.add(starts)
    moves, load = proposed(day, given, before.by_minute())
    assert [move.offset in offsets(table) for move, table in zip(moves, found, strict=True)] == [True] * len(found)
    for move, (_, starts, _) in zip(moves, given, strict=True):
        moved = starts_on(day, move.table)
        assert moved.starts == starts.starts
        after.add(moved)
    assert load == after.by_minute()
    assert max(load, default=0) <= max(before.by_minute(), default=0)


def test_schedules_of_a_minute_go_to_the_nearest_free_minutes() -> None:
    day = Day.of(date(2026, 6, 1), "Europe/Berlin")
    found = [(cron("0 2 * * MON"), starts_on(day, cron("0 2 * * MON")), LONG_AGO)] * 3
    moves, load = proposed(day, found, [3 if minute == 120 else 0 for minute in range(1440)])
    assert [move.table.cron for move in moves] == ["1 2 * * MON", "2 2 * * MON", "0 2 * * MON"]
    assert load[119:124] == [0, 1, 1, 1, 0]


def test_words_become_fields_and_an_interval_changes_its_phase() -> None:
    assert shifted(cron("@Daily"), 7).cron == "7 0 * * *"
    assert shifted(cron("*/20 * 1-7 * mon"), 5).cron == "5,25,45 * 1-7 * mon"
    assert offsets(cron("*/20 * * * *")) == range(20)
    assert offsets(cron("15,45 2 * * *")) == range(-15, 15)
    assert (offsets(every(10)), offsets(every(1440))) == (range(-5, 6), range(-30, 31))
    assert shifted(every(10), -5).starts_at == datetime(2018, 12, 31, 23, 55, tzinfo=UTC)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (cron("* * * * *"), "from 0 to 59"),
        (cron("*/20 2 * * *"), "begins with"),
        (every(7), "divide a day"),
        (every(0.5), "divide a day"),
        (Timetable(every_ms=600_000, fixed_delay=True, starts_at=LONG_AGO), "end of the last run"),
    ],
)
def test_schedules_that_cannot_move_have_a_reason(table: Timetable, words: str) -> None:
    assert words in unmovable(table)
    assert offsets(table) == range(1)
