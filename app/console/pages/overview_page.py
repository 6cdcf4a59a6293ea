"""The overview."""

from app.console.http.console_page import ConsolePage, Values
from app.features.control import stats_api

page = ConsolePage("overview", "", "Overview", reads="GET /health/operations", nav="Overview", shortcut="o")


@page.region("attention", live="breakers flow workers")
def attention() -> Values:
    return {"operations": stats_api.operations()}
