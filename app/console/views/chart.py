"""Charts: values of figures over time, for the script that draws them and for a table."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from app.console.views import words
from app.console.views.delivery_totals import up_to
from app.features.rollups.delivery_history import DeliveryHistory, Point

Values = list[float | None]
"""Values of a figure by step, None where nobody counted."""


@dataclass(frozen=True, slots=True)
class ChartLine:
    """A figure of a chart; `tone` is its colour."""

    label: str
    tone: str
    values: Values


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


def any_known(values: Sequence[float | None]) -> bool:
    return any(value is not None for value in values)


def charts_of(history: DeliveryHistory) -> list[Chart]:
    """Return the charts of a history: deliveries, lateness, duration, queues and slots."""
    points = history.points
    instants = [point.at for point in points]
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
        Chart("deliveries", "Deliveries a second", "/s", instants, attempts),
        Chart("lateness", "Lateness: from due to start", "ms", instants, _percentiles(points, "lateness")),
        Chart("duration", "Duration of attempts", "ms", instants, _percentiles(points, "duration")),
        Chart("queues", "Due and running", "", instants, gauges),
    ]


def _rates(points: Sequence[Point], name: str) -> Values:
    return [
        None if each.counts is None else round(getattr(each.counts, name) / each.counted_seconds, 3) for each in points
    ]


def _percentiles(points: Sequence[Point], name: str) -> list[ChartLine]:
    distributions = [None if each.counts is None else getattr(each.counts, name) for each in points]
    shares = (("half within", "good", 0.5), ("95 % within", "busy", 0.95), ("99 % within", "bad", 0.99))
    return [
        ChartLine(label, tone, [None if each is None else each.percentile(share) for each in distributions])
        for label, tone, share in shares
    ]


def _gauges(points: Sequence[Point], name: str) -> Values:
    return [None if each.gauges is None else getattr(each.gauges, name) for each in points]
