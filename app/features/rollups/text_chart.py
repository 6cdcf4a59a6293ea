"""Charts for a terminal: one line of blocks for each figure, scaled to its largest value."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from app.features.rollups.delivery_history import DeliveryHistory, Point, Range, chosen_step
from app.kernel.function_types import Title
from schema.rollup_bounds import LATE_MS, TOOK_MS

_BLOCKS = "▁▂▃▄▅▆▇█"
COLUMNS = 72
STEPS_OF_CHARTS = (10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 14_400, 21_600, 43_200, 86_400)
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))
NONE = "-"

Values = Sequence[float | None]


class Line(NamedTuple):
    """One figure: its blocks, its largest and its last value."""

    name: str
    blocks: str
    most: str
    last: str


def step_of(length: timedelta, age: timedelta) -> int:
    """Return the step with which a period fits into COLUMNS."""
    return chosen_step(length, age, points=COLUMNS, ladder=STEPS_OF_CHARTS)


def blocks(values: Values) -> str:
    """Draw values: a space where nobody counted, the lowest block for zero, the highest for the largest value."""
    most = max((value for value in values if value is not None), default=0)
    return "".join(" " if value is None else _block(value, most) for value in values)


def _block(value: float, most: float) -> str:
    if value <= 0:
        return _BLOCKS[0]
    return _BLOCKS[min(len(_BLOCKS) - 1, 1 + int(value / most * (len(_BLOCKS) - 2)))]


def lines(history: DeliveryHistory) -> list[Line]:
    """Return the figures of a history, one line each."""
    points = history.points
    return [
        _line("attempts /s", _rates(points, "attempts"), _rate),
        _line("succeeded /s", _rates(points, "succeeded"), _rate),
        _line("retried /s", _rates(points, "retried"), _rate),
        _line("failed /s", _rates(points, "failed"), _rate),
        _line("late p50", [_percentile(each, "lateness", 0.5) for each in points], up_to),
        _line("late p99", [_percentile(each, "lateness", 0.99) for each in points], up_to),
        _line("took p50", [_percentile(each, "duration", 0.5) for each in points], up_to),
        _line("took p99", [_percentile(each, "duration", 0.99) for each in points], up_to),
        _line("due", _gauges(points, "due"), _whole),
        _line("oldest due", _gauges(points, "oldest_ms"), duration),
        _line("in flight", _gauges(points, "in_flight"), _whole),
        _line("slots", _gauges(points, "slots"), _whole),
    ]


def about(found: Range) -> str:
    """Describe the period and the step of the charts."""
    length = duration((found.until - found.since) / timedelta(milliseconds=1))
    return f"{length}, {duration(found.step_s * 1000)} a column"


def duration(milliseconds: float) -> str:
    """Write a duration in its largest unit."""
    size, unit = next(((size, unit) for size, unit in _UNITS if milliseconds >= size), _UNITS[-1])
    return f"{round(milliseconds / size, 1):g} {unit}"


def up_to(milliseconds: float) -> str:
    """Write a percentile, which is the bound of its class."""
    is_more = milliseconds - 1 in {LATE_MS[-1], TOOK_MS[-1]}
    return f"> {duration(milliseconds - 1)}" if is_more else f"≤ {duration(milliseconds)}"


def _line(name: str, values: Values, shown: Title[float]) -> Line:
    known = [value for value in values if value is not None]
    return Line(name, blocks(values), shown(max(known)) if known else NONE, shown(known[-1]) if known else NONE)


def _rates(points: Sequence[Point], name: str) -> Values:
    return [None if each.counts is None else getattr(each.counts, name) / each.counted_seconds for each in points]


def _percentile(point: Point, name: str, share: float) -> float | None:
    return None if point.counts is None else getattr(point.counts, name).percentile(share)


def _gauges(points: Sequence[Point], name: str) -> Values:
    return [None if each.gauges is None else getattr(each.gauges, name) for each in points]


def _rate(value: float) -> str:
    return f"{value:,.2f}" if value < 10 else f"{value:,.0f}"


def _whole(value: float) -> str:
    return f"{value:,.0f}"
