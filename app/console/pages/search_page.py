"""Search page: the rows of all kinds that one word names."""

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import query
from app.features.search.hits import hits
from app.web.services import services

page = ConsolePage("search", "/search", "Search", reads="GET /search")


@page.show
def show() -> Values:
    word = query().text("q")
    return {"word": word, "hits": hits(services().database, word) if word else []}
