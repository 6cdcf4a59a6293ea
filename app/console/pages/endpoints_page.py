"""Endpoints by trouble, with their deliveries of a window; and the endpoints without any."""

from app.catalog.endpoints import versions
from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import query
from app.console.pages.periods import PERIODS, chosen_period
from app.console.views.overview_figures import TROUBLES
from app.console.views.sparkline import sparkline
from app.features.control.shared_figures import shared_figures
from app.features.control.trouble import EndpointOrder, ordered
from app.kernel.db.paging import PageRequest
from app.web.services import services

MAX_SHOWN = 100

page = ConsolePage("endpoints", "/endpoints", "Endpoints", reads="GET /stats/endpoints", nav="Endpoints", shortcut="p")


@page.region("list", live="rollups breakers flow letters catalog")
def list_() -> Values:
    """Read the endpoints in the order of the address, and the newest endpoints without deliveries."""
    last = chosen_period()
    order = EndpointOrder(query().choice("sort", [each.value for each in EndpointOrder], EndpointOrder.TROUBLE.value))
    found = shared_figures().endpoints(PERIODS[last])
    states = ordered(found.states, order)
    seen = {each.endpoint for each in states}
    others = versions.page(services().database, PageRequest(MAX_SHOWN), inline=False).items
    return {
        "states": states[:MAX_SHOWN],
        "left_out": max(0, len(states) - MAX_SHOWN),
        "others": [each for each in others if each.name not in seen],
        "window": found.window,
        "last": last,
        "ranges": [*PERIODS],
        "sort": order.value,
        "orders": [each.value for each in EndpointOrder],
        "sparkline": sparkline,
        "trouble_words": TROUBLES,
    }
