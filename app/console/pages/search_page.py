"""Search page: the rows of all kinds that one word names."""

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import query
from app.features.search.hits import hits
from app.web.services import services

MIN_WORD, NAMED = 2, 8  # letters from which the palette looks names up; names that it shows

page = ConsolePage("search", "/search", "Search", reads="GET /search")


@page.region("names", refreshed=False)
def names() -> Values:
    """Look up the names for the palette, which asks as a person types."""
    word = query().text("q")
    return {"word": word, "hits": hits(services().database, word)[:NAMED] if len(word) >= MIN_WORD else []}


@page.show
def show() -> Values:
    word = query().text("q")
    return {"word": word, "hits": hits(services().database, word) if word else []}
