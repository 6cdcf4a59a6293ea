"""Doctor: problems of the database and its rows, with their fixes. A button begins it, since it reads much."""

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import query
from app.features.doctor import api as doctor_api

page = ConsolePage("doctor", "/doctor", "Doctor", reads="GET /doctor", under="processes")


@page.show
def show() -> Values:
    return {"found": doctor_api.get() if query().flag("examine") else None, "seconds": doctor_api.MAX_SECONDS}
