"""Sparklines: values as paths, with gaps."""

import pytest

from app.console.views.sparkline import HEIGHT, WIDTH, sparkline


def test_largest_value_reaches_the_top_and_nothing_the_bottom() -> None:
    drawn = sparkline([0, 5, 10])
    assert drawn.line == f"M0,{HEIGHT} L{WIDTH / 2:g},{HEIGHT - (HEIGHT - 2) / 2:g} L{WIDTH},2"
    assert drawn.area.endswith(f"L{WIDTH},{HEIGHT}Z")
    assert drawn.top == 10


def test_missing_values_are_gaps_and_a_single_value_is_a_short_line() -> None:
    assert sparkline([1, None, 1, 1]).line.count("M") == 2
    assert "L" in sparkline([1, None, None, 2]).line


@pytest.mark.parametrize("values", [[], [None], [None, None], [0], [0, 0]])
def test_nothing_to_draw_is_no_error(values: list[float | None]) -> None:
    assert sparkline(values).top == 0


def test_given_top_bounds_the_scale() -> None:
    assert sparkline([1, 1], top=2).line == f"M0,{HEIGHT - (HEIGHT - 2) / 2:g} L{WIDTH},{HEIGHT - (HEIGHT - 2) / 2:g}"
