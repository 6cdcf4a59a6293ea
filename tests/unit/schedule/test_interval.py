"""Intervals: spelling of the distance, and ticks at equal distances."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.kernel.errors import InvalidRequestError
from app.kernel.formats import show_duration
from app.schedule.interval import LONGEST_MS, SHORTEST_MS, Interval, parse_every
from tests.cases import each_case

START = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
TWO_YEARS = timedelta(days=730)
every = st.integers(SHORTEST_MS, LONGEST_MS)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("10ms", 10), ("1500ms", 1500), ("10s", 10_000), ("5m", 300_000), ("2h", 7_200_000), ("1d", 86_400_000), (10, 10)],
)
def test_every_accepts_a_number_with_a_unit(text: object, milliseconds: int) -> None:
    assert parse_every(text) == milliseconds


@given(every)
def test_shown_interval_is_read_back(milliseconds: int) -> None:
    assert parse_every(show_duration(milliseconds)) == milliseconds


@each_case("value", [None, True, 1.5, "", "s", "10", "1 s", "-1s", "9ms", 9, "367d", "1w", "٣s", [1]])
def test_invalid_interval_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_every(value)
    assert caught.value.details[0]["pointer"] == "/every"


@given(every, st.timedeltas(min_value=-timedelta(days=400), max_value=timedelta(days=4000)))
def test_next_tick_is_the_first_of_the_grid_after_an_instant(milliseconds: int, since: timedelta) -> None:
    step, instant = timedelta(milliseconds=milliseconds), START + since
    tick = Interval(START, milliseconds).next_after(instant)
    assert tick is not None
    assert tick > instant
    assert (tick - START) % step == timedelta(0)
    assert tick == START or tick - step <= instant


@given(every, st.timedeltas(-TWO_YEARS, TWO_YEARS), st.timedeltas(timedelta(0), timedelta(days=3)))
def test_numbered_ticks_of_a_span_equal_the_listed_ticks(
    milliseconds: int, since: timedelta, length: timedelta
) -> None:
    after, interval = START + since, Interval(START, milliseconds)
    until = after + min(length, 50 * timedelta(milliseconds=milliseconds))
    listed, tick = [], interval.next_after(after)
    while tick is not None and tick <= until:
        listed.append(tick)
        tick = interval.next_after(tick)
    assert [interval.tick(number) for number in interval.numbers(after, until)] == listed


def test_ticks_are_counted_by_elapsed_time_across_clock_changes() -> None:
    ticks, tick = [], START
    for _ in range(10):
        tick = Interval(START, 1_200_000).next_after(tick) or tick
        ticks.append(tick)
    assert {after - before for before, after in pairwise(ticks)} == {timedelta(minutes=20)}


def test_no_tick_exists_beyond_the_calendar() -> None:
    assert Interval(START, LONGEST_MS).next_after(datetime(9999, 12, 31, tzinfo=UTC)) is None
