"""Periods of the list of executions: the deliveries of its time and endpoint, from the rollups."""

from datetime import timedelta

from app.console.http.console_page import Values
from app.console.http.page_rendering import now
from app.console.pages.address_filter import SINCE
from app.console.pages.deliveries_page import address_of_deliveries
from app.console.pages.execution_query import CREATED, ExecutionQueryOfPage
from app.console.views.period_bars import BAR_HEIGHT, period_bars
from app.features.rollups.delivery_history import ALL, Range, chosen_step, read_deliveries
from app.features.rollups.text_chart import STEPS_OF_CHARTS
from app.web.services import services

BARS = 36
USUAL, LONGEST = timedelta(hours=24), timedelta(days=90)
_COUNTED = {"endpoint", SINCE, *CREATED}  # filters by which the rollups count


def periods_of(found: ExecutionQueryOfPage) -> Values:
    """Return the bars of a filter by endpoint and time; none for other filters, and of a time without deliveries."""
    if found.faults or found.given.keys() - _COUNTED:
        return {"periods": []}
    until = min(found.wanted.created_before or now(), now())
    since = max(found.wanted.created_after or until - USUAL, now() - LONGEST)
    if since >= until:
        return {"periods": []}
    step_s = chosen_step(until - since, now() - since, points=BARS, ladder=STEPS_OF_CHARTS)
    wanted = Range.of(since, until, step_s, now())
    endpoint = found.wanted.endpoint or ALL
    points = read_deliveries(services().database, wanted, endpoint=endpoint)
    bars = period_bars(points, timedelta(seconds=step_s))
    return {
        "periods": [(bar, address_of_deliveries(bar.start, bar.end, endpoint)) for bar in bars],
        "range": wanted,
        "height": BAR_HEIGHT,
        "most": max((bar.attempts for bar in bars), default=0),
    }
