"""Charts of deliveries over time: rates, lateness, durations, queues, and failures by type."""

from datetime import timedelta

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import query
from app.console.pages.periods import PERIODS, chosen_period
from app.console.views.chart import charts_of
from app.console.views.delivery_totals import total_of
from app.console.views.heatmap import heatmap_of
from app.features.control.trouble import BUDGET_MS
from app.features.rollups.delivery_history import ALL, DeliveryHistory, chosen_step, read_last
from app.features.rollups.text_chart import STEPS_OF_CHARTS
from app.web.services import services

MAX_STEPS = 72

page = ConsolePage("history", "/history", "Charts", reads="GET /stats/history", nav="Charts", shortcut="h")


@page.show
def show() -> Values:
    """Read the period and the endpoint of the address."""
    return {"ranges": PERIODS, "last": chosen_period(), "endpoint": query().text("endpoint")}


@page.region("charts", live="rollups")
def charts() -> Values:
    return chart_values(query().text("endpoint"))


def chart_values(endpoint: str) -> Values:
    """Read the charts of the period of the address, for one endpoint or all."""
    found = past(PERIODS[chosen_period()], endpoint)
    total, seconds = total_of(found.points)
    return {
        "history": found,
        # Queues and slots are no figures of an endpoint.
        "charts": [chart for chart in charts_of(found) if not (endpoint and chart.name == "queues")],
        "heatmap": heatmap_of(found.points),
        "total": total,
        "per_second": total.attempts / seconds if total is not None and seconds else None,
        "on_time": None if total is None else total.lateness.within(BUDGET_MS),
    }


def past(length: timedelta, endpoint: str = ALL) -> DeliveryHistory:
    """Read the history of the last `length`, in at most MAX_STEPS steps."""
    step = chosen_step(length, length, points=MAX_STEPS, ladder=STEPS_OF_CHARTS)
    return read_last(services().database, length, step, endpoint=endpoint)
