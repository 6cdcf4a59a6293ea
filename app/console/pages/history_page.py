"""Charts of deliveries over time: rates, lateness, durations, queues, and failures by type."""

from datetime import timedelta

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import query
from app.console.views.chart import BUDGET_MS, charts_of, heatmap_of, total_of, up_to
from app.features.rollups import rollup_slots
from app.features.rollups.delivery_history import ALL, DeliveryHistory, Range, chosen_step, read_history
from app.features.rollups.text_chart import STEPS_OF_CHARTS
from app.web.services import services

RANGES = {
    "5m": timedelta(minutes=5),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
USUAL = "1h"
MAX_STEPS = 72

page = ConsolePage("history", "/history", "Charts", reads="GET /stats/history", nav="Charts", shortcut="h")


@page.show
def show() -> Values:
    """Read the period and the endpoint of the address."""
    return {"ranges": RANGES, "last": last(), "endpoint": query().text("endpoint")}


@page.region("charts", live="rollups")
def charts() -> Values:
    return chart_values(query().text("endpoint"))


def last() -> str:
    """Return the period of the address."""
    return query().choice("last", [*RANGES], USUAL)


def chart_values(endpoint: str) -> Values:
    """Read the charts of the period of the address, for all endpoints or one."""
    found = past(RANGES[last()], endpoint)
    total, seconds = total_of(found.points)
    return {
        "history": found,
        # Queues and slots are no figures of an endpoint.
        "charts": [chart for chart in charts_of(found) if not (endpoint and chart.name == "queues")],
        "heatmap": heatmap_of(found.points),
        "total": total,
        "per_second": total.attempts / seconds if total is not None and seconds else None,
        "on_time": None if total is None else total.lateness.within(BUDGET_MS),
        "up_to": up_to,
    }


def past(length: timedelta, endpoint: str = ALL) -> DeliveryHistory:
    """Read the history of the last `length`, in at most MAX_STEPS steps."""
    database = services().database
    now = rollup_slots.marks(database).now
    step = chosen_step(length, length, points=MAX_STEPS, ladder=STEPS_OF_CHARTS)
    return read_history(database, Range.of(now - length, now, step, now), endpoint=endpoint)
