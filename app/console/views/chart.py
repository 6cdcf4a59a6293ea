"""Charts: values of figures over time, for the script that draws them and for a table; and the lateness heatmap."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.console.views import words
from app.features.rollups.delivery_history import DeliveryCounts, DeliveryHistory, Point
from app.features.rollups.distribution import Distribution
from schema.rollup_bounds import LATE_MS, TOOK_MS

SHADES = 5
BUDGET_MS = 5_000

Value = Callable[[Point], float | None]


@dataclass(frozen=True, slots=True)
class ChartLine:
    """A figure of a chart: its values by step, None where nobody counted; `tone` is its colour."""

    label: str
    tone: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Chart:
    """Figures over time with one unit: `/s`, `ms` or none."""

    name: str
    title: str
    unit: str
    instants: Sequence[datetime]
    lines: Sequence[ChartLine]

    @property
    def data(self) -> str:
        """The values for the script that draws them."""
        lines = [{"label": line.label, "tone": line.tone, "values": line.values} for line in self.lines]
        return json.dumps({"at": [round(at.timestamp()) for at in self.instants], "unit": self.unit, "lines": lines})

    @property
    def rows(self) -> list[tuple[datetime, list[str]]]:
        """The steps with a value, newest first, with the values in words."""
        found = zip(self.instants, *(line.values for line in self.lines), strict=True)
        shown = [(at, [self.words(value) for value in values]) for at, *values in found if any_known(values)]
        return shown[::-1]

    @property
    def is_empty(self) -> bool:
        return not any(any_known(line.values) for line in self.lines)

    def words(self, value: float | None) -> str:
        if value is None:
            return words.NOTHING
        if self.unit == "ms":
            return up_to(value)
        return f"{value:,.2f}".rstrip("0").rstrip(".") if value < 100 else f"{value:,.0f}"


@dataclass(frozen=True, slots=True)
class Cell:
    """Attempts of one class of lateness in one step, and their share of the step from 1 to SHADES."""

    column: int
    row: int
    shade: int
    words: str


@dataclass(frozen=True, slots=True)
class Heatmap:
    """Lateness over time: columns are steps, rows are classes, the latest one on top."""

    columns: int
    labels: Sequence[str]
    cells: Sequence[Cell]


def any_known(values: Sequence[float | None]) -> bool:
    return any(value is not None for value in values)


def up_to(milliseconds: float | None) -> str:
    """Write a percentile, which is the bound of its class."""
    if milliseconds is None:
        return words.NOTHING
    if milliseconds - 1 in {LATE_MS[-1], TOOK_MS[-1]}:
        return f"> {_bound(milliseconds - 1)}"
    return f"≤ {_bound(milliseconds)}"


def _bound(milliseconds: float) -> str:
    return words.duration(milliseconds).replace(".0 s", " s")


def charts_of(history: DeliveryHistory) -> list[Chart]:
    """Return the charts of a history: deliveries, lateness, duration, queues and slots."""
    instants = [point.at for point in history.points]

    def chart(name: str, title: str, unit: str, *lines: tuple[str, str, Value]) -> Chart:
        found = [ChartLine(label, tone, [value(point) for point in history.points]) for label, tone, value in lines]
        return Chart(name, title, unit, instants, found)

    return [
        chart(
            *("deliveries", "Deliveries a second", "/s"),
            ("attempts", "busy", _rate("attempts")),
            ("retried", "warn", _rate("retried")),
            ("failed for good", "bad", _rate("failed")),
        ),
        chart(
            *("lateness", "Lateness: from due to start", "ms"),
            ("half within", "good", _share("lateness", 0.5)),
            ("95 % within", "busy", _share("lateness", 0.95)),
            ("99 % within", "bad", _share("lateness", 0.99)),
        ),
        chart(
            *("duration", "Duration of attempts", "ms"),
            ("half within", "good", _share("duration", 0.5)),
            ("95 % within", "busy", _share("duration", 0.95)),
            ("99 % within", "bad", _share("duration", 0.99)),
        ),
        chart(
            *("queues", "Due and running", ""),
            ("due", "warn", _gauge("due")),
            ("running", "busy", _gauge("in_flight")),
            ("slots", "good", _gauge("slots")),
        ),
    ]


def heatmap_of(points: Sequence[Point]) -> Heatmap:
    """Return the lateness of all steps by class."""
    labels = [up_to(bound) for bound in (*LATE_MS, LATE_MS[-1] + 1)]
    cells = [
        Cell(
            column,
            len(labels) - 1 - number,
            _shade(count / total),
            f"{words.plural(count, 'attempt')} {labels[number]}",
        )
        for column, point in enumerate(points)
        if point.counts is not None and (total := point.counts.lateness.total)
        for number, count in enumerate(point.counts.lateness.counts)
        if count
    ]
    return Heatmap(len(points), labels[::-1], cells)


def total_of(points: Sequence[Point]) -> tuple[DeliveryCounts | None, int]:
    """Return the sum of all steps and the counted seconds; None if nobody counted."""
    counted = [point.counts for point in points if point.counts is not None]
    seconds = sum(point.counted_seconds for point in points)
    return (sum_of(counted), seconds) if counted else (None, 0)


def sum_of(counted: Sequence[DeliveryCounts]) -> DeliveryCounts:
    names = ("attempts", "succeeded", "retried", "failed", "cancelled", "unsent", "uncertain", "lost")
    late = [sum(each) for each in zip(*(counts.lateness.counts for counts in counted), strict=True)]
    took = [sum(each) for each in zip(*(counts.duration.counts for counts in counted), strict=True)]
    return DeliveryCounts(
        lateness=Distribution.of_lateness(late),
        duration=Distribution.of_duration(took),
        **{name: sum(getattr(counts, name) for counts in counted) for name in names},
    )


def sparkline(values: Sequence[int], width: int = 72, height: int = 18) -> str:
    """Return the points of a polyline that fills a small picture; the largest value reaches its top."""
    most, step = max([1, *values]), width / max(1, len(values) - 1)
    return " ".join(
        f"{number * step:.1f},{height - 1 - value / most * (height - 2):.1f}" for number, value in enumerate(values)
    )


def _shade(share: float) -> int:
    return next((number for number, bound in enumerate((0.01, 0.05, 0.2, 0.6), 1) if share <= bound), SHADES)


def _rate(name: str) -> Value:
    def value(point: Point) -> float | None:
        return None if point.counts is None else round(getattr(point.counts, name) / point.counted_seconds, 3)

    return value


def _share(name: str, share: float) -> Value:
    def value(point: Point) -> float | None:
        return None if point.counts is None else getattr(point.counts, name).percentile(share)

    return value


def _gauge(name: str) -> Value:
    def value(point: Point) -> float | None:
        return None if point.gauges is None else getattr(point.gauges, name)

    return value
