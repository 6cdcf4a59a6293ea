"""API keys, without their values."""

from functools import partial

from app.console.http.console_page import ConsolePage, Values
from app.console.http.list_pages import shown_page
from app.kernel.access import api_keys
from app.web.services import services

page = ConsolePage("keys", "/keys", "API keys", reads="GET /api-keys")


@page.region("list")
def keys() -> Values:
    return {"found": shown_page(partial(api_keys.page, services().database), {})}
