"""Routes: the queue of each endpoint, by patterns of names."""

from typing import Any

from flask import Response
from marshmallow import ValidationError

from app.catalog import routing
from app.catalog.routing import Route, Routing
from app.console.http.actions import Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import ETAG, change, form, query
from app.features.queues import routes_api
from app.features.queues.routes_api import NewRoutesSchema
from app.kernel.formats import marshmallow_faults
from app.web.http.request_fields import Name
from app.web.services import services
from schema.states import RouteSource

MAX_TEXT = 100_000
page = ConsolePage("routes", "/catalogue/routes", "Routes", reads="GET /routes", under="catalogue")


@page.show
def show() -> Values:
    """Read the routes, and the queue of the name in the address."""
    found = routing.load(services().database)
    lines = [f"{route.pattern} {route.queue}" for route in found.routes]
    endpoint = query().text("endpoint")
    return _shown(found, "\n".join(lines)) | {"answer": _answer(endpoint), "endpoint": endpoint}


def _shown(found: Routing, text: str, fault: str = "") -> Values:
    return {
        "routes": found.routes,
        "source": found.source,
        "etag": found.tag,
        "text": text,
        "fault": fault,
        "answer": None,
        "endpoint": "",
    }


def _refused(text: str, fault: str) -> Response:
    """Return the form with a fault, and with its own tag: the fault must not hide another user's change."""
    values = _shown(routing.load(services().database), text, fault) | {"etag": form().text(ETAG)}
    return page.answer({}, values, 422)


def _answer(endpoint: str) -> dict[str, Any] | None:
    if not endpoint:
        return None
    try:
        return routes_api.test({"endpoint": Name().deserialize(endpoint)})
    except ValidationError as error:
        return {"fault": str(error.messages[0])}


@action("PUT /routes")
def replace() -> Done | Response:
    """Replace all routes by the lines of the form: a pattern, a space and a queue."""
    text = form().text("routes", longest=MAX_TEXT)
    pairs = [line.split() for line in text.splitlines() if line.strip()]
    malformed = [number for number, pair in enumerate(pairs, 1) if len(pair) != 2]
    if malformed:
        return _refused(text, f"Line {malformed[0]} must be a pattern, a space and a queue.")
    try:
        body = NewRoutesSchema().load({"routes": [{"pattern": pattern, "queue": queue} for pattern, queue in pairs]})
    except ValidationError as error:
        path, message = next(iter(marshmallow_faults(error.messages)))
        line = f"Line {int(path[1]) + 1}: " if len(path) > 1 and str(path[1]).isdigit() else ""
        return _refused(text, f"{line}{message}")
    routing.change_routes(services().database, routes_api.routes_of(body), RouteSource.API, change())
    return Done("Saved: executions created from now on go to the queues of these routes.")


@action("DELETE /routes")
def restore() -> Done:
    routes = [Route(*pair) for pair in services().settings.routes]
    routing.change_routes(services().database, routes, RouteSource.ENVIRONMENT, change())
    return Done("The routes of TE_ROUTES are in force again.")
