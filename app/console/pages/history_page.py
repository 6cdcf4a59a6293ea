"""Charts of deliveries over time: rates, lateness, durations, queues, and failures by type."""

from functools import cache, partial

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import query
from app.console.http.page_rendering import to
from app.console.pages.chart_changes import changes_in
from app.console.pages.deliveries_page import address_of_deliveries
from app.console.pages.periods import (
    PERIODS,
    address_of_time,
    choice_of_periods,
    chosen_period,
    neighbours,
    pinned_time,
    shown_period,
)
from app.console.views.chart import charts_of
from app.console.views.chart_marks import marks_of
from app.console.views.delivery_totals import budget_words, total_of
from app.console.views.heatmap import heatmap_of
from app.features.control.shared_figures import shared_figures
from app.features.control.trouble import BUDGET_MS
from app.features.rollups import rollup_slots
from app.features.rollups.delivery_history import DeliveryHistory, Range, chosen_step, read_history
from app.features.rollups.samples import FLEET
from app.features.rollups.text_chart import STEPS_OF_CHARTS
from app.web.services import services

MAX_STEPS = 72

page = ConsolePage("history", "/history", "Charts", reads="GET /stats/history", nav="Charts", shortcut="h")


@page.show
def show() -> Values:
    """Read the period and the endpoint of the address."""
    return {"ranges": choice_of_periods(), "last": shown_period(), "endpoint": query().text("endpoint")}


@page.region("charts", live="rollups")
def charts() -> Values:
    return chart_values(query().text("endpoint"))


def chart_values(endpoint: str) -> Values:
    """Read the charts of the period of the address, for one endpoint or all."""
    found = history_of(endpoint)
    total, seconds = total_of(found.points)
    changes = shared_figures().of(changes_in, found.range, endpoint)
    charts = charts_of(found, marks_of(changes.lines, found.range))
    on_time = None if total is None else total.lateness.within(BUDGET_MS)
    return {
        "history": found,
        "charts": [chart for chart in charts if not (endpoint and chart.name == "queues")],
        "changes": changes,
        "is_pinned": pinned_time() is not None,
        "pin": address_of_time(found.range.since, found.range.until),
        "neighbours": neighbours(found.range.since, found.range.until),
        "list_of": cache(partial(address_of_deliveries, endpoint=endpoint)),  # the charts have the same steps
        "lists": to("deliveries", **({"endpoint": endpoint} if endpoint else {})),
        "heatmap": heatmap_of(found.points),
        "total": total,
        "per_second": total.attempts / seconds if total is not None and seconds else None,
        "on_time": on_time,
        "budget": budget_words(on_time),
    }


def history_of(endpoint: str) -> DeliveryHistory:
    """Read the history of the time of the address, in at most MAX_STEPS steps if their slots are kept."""
    database = services().database
    marks = rollup_slots.marks(database)
    since, until = pinned_time() or (marks.now - PERIODS[chosen_period()], marks.now)
    step = chosen_step(until - since, marks.now - since, points=MAX_STEPS, ladder=STEPS_OF_CHARTS)
    wanted = Range.of(since, until, step, marks.now)
    # Queues and slots are no figures of an endpoint.
    return read_history(database, wanted, marks, endpoint=endpoint, queue=None if endpoint else FLEET)
