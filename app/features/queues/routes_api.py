"""/routes."""

from itertools import islice
from typing import Any

from marshmallow import Schema, fields, validate

from app.catalog import routing
from app.catalog.endpoints import versions
from app.catalog.routing import Route, Routing, queue_for
from app.kernel.access.api_keys import Scope
from app.kernel.config import MAX_ROUTES
from app.kernel.described_fields import answered, described
from app.kernel.errors import EndpointNotFoundError
from app.web.catalog.endpoints_api import RouteSchema
from app.web.http.conditions import change, tagged, unless_known
from app.web.http.request_fields import Body, Name
from app.web.openapi.resource import Resource
from app.web.services import services, wake
from schema.states import RouteSource

MAX_SHOWN = 100
_SOURCE = {"description": "set by TE_ROUTES or by PUT", "example": RouteSource.API.value}

resource = Resource("routes", "Queues for the executions of endpoints, by patterns of endpoint names.", is_tagged=True)
# It stores nothing, so the scope `read` is enough.
dry_runs = Resource("route-tests", "Dry runs of routes.", write_scope=Scope.READ)


class NewRoutesSchema(Body):
    """All routes, in order: the first route with a matching pattern is used."""

    routes = fields.List(fields.Nested(RouteSchema), required=True, validate=validate.Length(1, MAX_ROUTES))


class RoutesSchema(Schema):
    """The routes in force."""

    routes = fields.List(fields.Nested(RouteSchema), required=True)
    source = fields.Enum(RouteSource, by_value=True, required=True, metadata=_SOURCE)


class RouteQuestionSchema(Body):
    """Name of an endpoint, existing or not, and routes to try instead of the current routes."""

    endpoint = Name(required=True, **described(example="billing-eu"))
    routes = fields.List(fields.Nested(RouteSchema), validate=validate.Length(max=MAX_ROUTES))


class MoveSchema(Schema):
    """A live endpoint that would be routed elsewhere."""

    endpoint = Name(required=True)
    before = fields.String(**answered(example="http"))
    after = fields.String(**answered(example="bulk"))


class RouteAnswerSchema(Schema):
    """Queue for an endpoint of that name without a queue of its own."""

    queue = fields.String(
        **answered("`null` if no endpoint has the name: its transport decides", null=True, example="bulk")
    )
    pattern = fields.String(**answered(null=True, example="billing-*"))
    position = fields.Integer(**answered("position of the route, from 0", null=True, example=0))
    is_default = fields.Boolean(**answered("no route matches", example=False))
    moves = fields.List(
        fields.Nested(MoveSchema), **described(f"with `routes`: the first {MAX_SHOWN} endpoints that would move")
    )
    move_count = fields.Integer(**described("with `routes`: number of endpoints that would move"))


@resource.route("GET", "/routes", returns=RoutesSchema)
def get() -> Any:
    """Get the routes."""
    found = routing.load(services().database)
    return unless_known(found, found.tag)


@resource.route("PUT", "/routes", body=NewRoutesSchema, returns=RoutesSchema)
def replace(body: dict[str, Any]) -> Any:
    """Replace all routes, for executions created from now on. Waiting executions stay in their queue."""
    return _answer(routing.change_routes(services().database, routes_of(body), RouteSource.API, change()))


@resource.route("DELETE", "/routes", returns=RoutesSchema)
def delete() -> Any:
    """Restore the routes of TE_ROUTES, as set in this process."""
    routes = [Route(*pair) for pair in services().settings.routes]
    return _answer(routing.change_routes(services().database, routes, RouteSource.ENVIRONMENT, change()))


@dry_runs.route("POST", "/routes/test", body=RouteQuestionSchema, returns=RouteAnswerSchema)
def test(body: dict[str, Any]) -> dict[str, Any]:
    """Return the queue for an endpoint's name; with `routes` also the endpoints that they would move."""
    database = services().database
    routes = routes_of(body) if "routes" in body else routing.load(database).routes
    found = queue_for(routes, body["endpoint"])
    if found is None:
        queue = _of_transport(body["endpoint"])
        answer: dict[str, Any] = {"queue": queue, "pattern": None, "position": None, "is_default": True}
    else:
        position, route = found
        answer = {"queue": route.queue, "pattern": route.pattern, "position": position, "is_default": False}
    if "routes" in body:
        moves = routing.moves(database, routes)
        answer["moves"] = list(islice(moves, MAX_SHOWN))
        answer["move_count"] = len(answer["moves"]) + sum(1 for _ in moves)
    return answer


def _of_transport(name: str) -> str | None:
    try:
        return versions.get(services().database, name).type.queue
    except EndpointNotFoundError:
        return None


def routes_of(body: dict[str, Any]) -> list[Route]:
    return [Route(**route) for route in body["routes"]]


def _answer(found: Routing) -> Any:
    for queue in {route.queue for route in found.routes}:
        # Workers look for queues that they do not know.
        wake(queue)
    return tagged(found, found.tag)
