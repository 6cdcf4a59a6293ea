"""Figures of the overview: the sum of a window, and its course as sparklines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.console.views.sparkline import Sparkline, sparkline
from app.console.views.words import NOTHING, duration, number, percent
from app.features.control.statistics import ServiceStatistics
from app.features.control.trouble import BUDGET_MS, EndpointState, Trouble
from app.features.queues.store import MAX_DUE
from app.features.rollups.delivery_history import DeliveryCounts, DeliveryHistory, Point
from app.features.rollups.distribution import Distribution
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


@dataclass(frozen=True, slots=True)
class ShownFigure:
    """A figure: its value now or over the window, a note, and its course."""

    label: str
    value: str
    note: str
    course: Sparkline
    tone: str = ""


def figures(history: DeliveryHistory, statistics: ServiceStatistics) -> list[ShownFigure]:
    """Return throughput, failures, lateness, due and running executions."""
    points = history.points
    counts = [point.counts for point in points if point.counts is not None]
    seconds = sum(point.counted_seconds for point in points)
    attempts, failed = sum(each.attempts for each in counts), sum(each.failed for each in counts)
    ended = sum(each.succeeded for each in counts) + failed
    lateness = _sum([each.lateness for each in counts])
    due, workers = sum(queue.due for queue in statistics.queues), statistics.workers
    is_more = any(queue.due >= MAX_DUE for queue in statistics.queues)
    share = failed / ended if ended else None
    return [
        ShownFigure(
            "Attempts",
            _rate(attempts, seconds),
            f"{number(attempts)} in all",
            _course(points, lambda each: each.attempts),
        ),
        ShownFigure(
            "Failed for good",
            percent(share),
            f"{number(failed)} of {number(ended)}",
            _course(points, lambda each: each.failed),
            "bad" if failed else "",
        ),
        ShownFigure(
            "Late, p99",
            _bound(lateness, 0.99),
            f"p50 {_bound(lateness, 0.5)}, {percent(lateness.within(BUDGET_MS) if lateness else None)} within 5 s",
            _course(points, lambda each: each.lateness.percentile(0.99)),
        ),
        ShownFigure("Due now", number(due, or_more=is_more), "", _gauge(points, "due")),
        ShownFigure(
            "In flight",
            number(workers.in_flight),
            f"of {numbered(workers.capacity, 'slot')}",
            _gauge(points, "in_flight", top=workers.capacity),
        ),
    ]


def course_of_endpoint(state: EndpointState) -> Sparkline | None:
    """Draw the attempts of an endpoint."""
    return None if state.deliveries is None else sparkline(state.deliveries.trend)


def _rate(number_: int, seconds: int) -> str:
    if not seconds:
        return NOTHING
    rate = number_ / seconds
    return f"{rate:,.0f}/s" if rate >= 100 else f"{rate:,.1f}/s" if rate >= 0.1 or not rate else f"{rate * 60:,.1f}/min"


def _bound(found: Distribution | None, share: float) -> str:
    bound = None if found is None else found.percentile(share)
    if bound is None or found is None:
        return NOTHING
    return (
        f"> {duration(found.bounds[-1])}"
        if bound > found.bounds[-1]
        else f"\N{LESS-THAN OR EQUAL TO} {duration(bound)}"
    )


def _sum(parts: Sequence[Distribution]) -> Distribution | None:
    if not parts:
        return None
    return Distribution(parts[0].bounds, [sum(each) for each in zip(*(part.counts for part in parts), strict=True)])


def _course(points: Sequence[Point], value: Callable[[DeliveryCounts], float | None]) -> Sparkline:
    """Draw a value of each step; a step without attempts has the value 0, a step that nobody counted a gap."""
    return sparkline([None if point.counts is None else value(point.counts) or 0 for point in points])


def _gauge(points: Sequence[Point], name: str, top: float = 0) -> Sparkline:
    return sparkline([None if point.gauges is None else getattr(point.gauges, name) for point in points], top)
