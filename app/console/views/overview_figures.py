"""Figures of the overview: the sum of a window, and its course as sparklines."""

from collections.abc import Sequence
from typing import NamedTuple

from app.console.views.delivery_totals import total_of, up_to
from app.console.views.sparkline import Sparkline, sparkline
from app.console.views.words import NOTHING, number, percent
from app.features.control.statistics import ServiceStatistics
from app.features.control.trouble import BUDGET_MS, Trouble
from app.features.queues.store import MAX_DUE
from app.features.rollups.delivery_history import DeliveryCounts, DeliveryHistory, Point
from app.kernel.formats import numbered

TROUBLES = {
    Trouble.BREAKER: "left alone",
    Trouble.FAILING: "failing",
    Trouble.UNCERTAIN: "uncertain deliveries",
    Trouble.LATE: "late",
    Trouble.PAUSED: "paused",
    Trouble.HELD: "at its limit",
    Trouble.LETTERS: "dead letters",
}


class ShownFigure(NamedTuple):
    """A figure: its value now or over the window, a note, and its course."""

    label: str
    value: str
    note: str
    course: Sparkline
    tone: str = ""


def figures(history: DeliveryHistory, statistics: ServiceStatistics) -> list[ShownFigure]:
    """Return throughput, failures, lateness, due and running executions."""
    points = history.points
    counted = [point.counts for point in points]  # None: nobody counted, which is a gap of the course
    total, seconds = total_of(points)
    counts = total or DeliveryCounts.total([])
    ended, lateness = counts.succeeded + counts.failed, counts.lateness
    due, workers = sum(queue.due for queue in statistics.queues), statistics.workers
    is_more = any(queue.due >= MAX_DUE for queue in statistics.queues)
    share = counts.failed / ended if ended else None
    return [
        ShownFigure(
            "Attempts",
            _rate(counts.attempts, seconds),
            f"{number(counts.attempts)} in all",
            sparkline([None if each is None else each.attempts for each in counted]),
        ),
        ShownFigure(
            "Failed for good",
            percent(share),
            f"{number(counts.failed)} of {number(ended)}",
            sparkline([None if each is None else each.failed for each in counted]),
            "bad" if counts.failed else "",
        ),
        ShownFigure(
            "Late, p99",
            up_to(lateness.percentile(0.99)),
            f"p50 {up_to(lateness.percentile(0.5))}, {percent(lateness.within(BUDGET_MS))} within 5 s",
            sparkline([None if each is None else each.lateness.percentile(0.99) or 0 for each in counted]),
        ),
        ShownFigure("Due now", number(due, or_more=is_more), "", _gauge(points, "due")),
        ShownFigure(
            "In flight",
            number(workers.in_flight),
            f"of {numbered(workers.capacity, 'slot')}",
            _gauge(points, "in_flight", top=workers.capacity),
        ),
    ]


def _rate(number_: int, seconds: int) -> str:
    if not seconds:
        return NOTHING
    rate = number_ / seconds
    return f"{rate:,.0f}/s" if rate >= 100 else f"{rate:,.1f}/s" if rate >= 0.1 or not rate else f"{rate * 60:,.1f}/min"


def _gauge(points: Sequence[Point], name: str, top: float = 0) -> Sparkline:
    return sparkline([None if point.gauges is None else getattr(point.gauges, name) for point in points], top)
