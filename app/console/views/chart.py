"""Charts: values of figures over time, for the script that draws them and for a table."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.console.views import words
from app.console.views.delivery_totals import up_to
from app.features.rollups.delivery_history import DeliveryHistory, Point

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


def any_known(values: Sequence[float | None]) -> bool:
    return any(value is not None for value in values)


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
