"""Charts: values of figures over time, for the script that draws them and for a table."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from app.console.views import words
from app.console.views.chart_marks import Mark
from app.console.views.counted_time import counted_ends
from app.console.views.delivery_totals import up_to
from app.features.rollups.delivery_history import DeliveryHistory, Point

Values = list[float | None]
"""Values of a figure by step, None where nobody counted."""


class ChartLine(NamedTuple):
    """A figure of a chart; `tone` is its colour."""

    label: str
    tone: str
    values: Values


class Chart(NamedTuple):
    """Figures over time with one unit: `/s`, `ms` or none; `is_listed` if they are of deliveries."""

    name: str
    title: str
    unit: str
    instants: Sequence[datetime]
    ends: Sequence[datetime]
    lines: Sequence[ChartLine]
    marks: Sequence[Mark] = ()
    is_listed: bool = True

    @property
    def data(self) -> str:
        """The values for the script that draws them."""
        lines = [{"label": line.label, "tone": line.tone, "values": line.values} for line in self.lines]
        marks = [{"at": mark.at.timestamp(), "tone": mark.tone, "words": mark.words} for mark in self.marks]
        times = {"at": _seconds(self.instants), "ends": _seconds(self.ends)}
        return json.dumps({**times, "unit": self.unit, "lines": lines, "marks": marks})

    @property
    def rows(self) -> list[tuple[datetime, datetime, list[str]]]:
        """The steps with a value, newest first: start, end, and the values in words."""
        found = zip(self.instants, self.ends, *(line.values for line in self.lines), strict=True)
        shown = [(at, end, [self.words(value) for value in values]) for at, end, *values in found if any_known(values)]
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


def _seconds(instants: Sequence[datetime]) -> list[int]:
    return [round(at.timestamp()) for at in instants]


def any_known(values: Sequence[float | None]) -> bool:
    return any(value is not None for value in values)


def charts_of(history: DeliveryHistory, marks: Sequence[Mark] = ()) -> list[Chart]:
    """Return the charts of a history: deliveries, lateness, duration, queues and slots."""
    points = history.points
    times = [point.at for point in points], counted_ends(points, timedelta(seconds=history.range.step_s))
    attempts = [
        ChartLine("attempts", "busy", _rates(points, "attempts")),
        ChartLine("retried", "warn", _rates(points, "retried")),
        ChartLine("failed for good", "bad", _rates(points, "failed")),
    ]
    gauges = [
        ChartLine("due", "warn", _gauges(points, "due")),
        ChartLine("running", "busy", _gauges(points, "in_flight")),
        ChartLine("slots", "good", _gauges(points, "slots")),
    ]
    return [
        Chart("deliveries", "Deliveries a second", "/s", *times, attempts, marks),
        Chart("lateness", "Lateness: from due to start", "ms", *times, _percentiles(points, "lateness"), marks),
        Chart("duration", "Duration of attempts", "ms", *times, _percentiles(points, "duration"), marks),
        Chart("queues", "Due and running", "", *times, gauges, marks, is_listed=False),
    ]


def _rates(points: Sequence[Point], name: str) -> Values:
    return [
        None if each.counts is None else round(getattr(each.counts, name) / each.counted_seconds, 3) for each in points
    ]


def _percentiles(points: Sequence[Point], name: str) -> list[ChartLine]:
    distributions = [None if each.counts is None else getattr(each.counts, name) for each in points]
    shares = (("p50", "good", 0.5), ("p95", "busy", 0.95), ("p99", "bad", 0.99))
    return [
        ChartLine(label, tone, [None if each is None else each.percentile(share) for each in distributions])
        for label, tone, share in shares
    ]


def _gauges(points: Sequence[Point], name: str) -> Values:
    return [None if each.gauges is None else getattr(each.gauges, name) for each in points]
