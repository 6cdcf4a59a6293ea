"""Charts of past deliveries for a terminal, with the types of their failures."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from rich.console import Group
from rich.text import Text

from app.cli.console import table_of
from app.features.rollups import api, text_chart
from app.features.rollups.delivery_history import ALL, DeliveryHistory, read_last
from app.kernel.db import Database
from app.kernel.formats import rfc3339

_NOTHING = "nothing was counted in this time: a running scheduler counts, and `stats rebuild` counts the time before"


@dataclass(frozen=True, slots=True)
class PastDeliveries:
    """History of all deliveries, or of one endpoint's."""

    history: DeliveryHistory

    @classmethod
    def of(cls, database: Database, *, last: timedelta, endpoint: str | None) -> Self:
        return cls(read_last(database, last, text_chart.step_of(last, last), endpoint=endpoint or ALL))

    def shape(self) -> dict[str, Any]:
        return api.shape(self.history, histograms=False)

    def screen(self) -> Group:
        found = self.history
        if not any(point.counted_seconds or point.gauges for point in found.points):
            return Group(Text(_NOTHING))
        rows = [(each.name, each.blocks, each.most, each.last) for each in text_chart.lines(found)]
        chart = f"{rfc3339(found.range.since)} to {rfc3339(found.range.until)}"
        parts: list[Any] = [table_of((found.endpoint or "all", chart, "MOST", "LAST"), rows, right=("MOST", "LAST"))]
        parts.append(Text(f"{text_chart.about(found.range)}; a space where nobody counted", style="dim"))
        if found.failures:
            failures = [(each.error_type, *map(str, each[1:])) for each in found.failures]
            header = ("FAILURES", "FAILED", "RETRIED", "UNCERTAIN")
            parts += [Text(), table_of(header, failures, right=header[1:])]
        return Group(*parts)
