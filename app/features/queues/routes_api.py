"""/routes."""

from itertools import islice
from typing import Any

from marshmallow import RAISE, Schema, fields, validate

from app.catalog.endpoints import versions
from app.catalog.endpoints.live_settings_fields import Whole, queue_field
from app.catalog.routing import endpoint_queues
from app.catalog.routing.endpoint_queues import Routing
from app.catalog.routing.routes import Route, queue_for
from app.kernel.access.api_keys import Scope
from app.kernel.config import MOST_ROUTES, ROUTE_PATTERN
from app.kernel.errors import EndpointNotFoundError
from app.web.http.conditions import change, tagged, unless_known
from app.web.http.request_fields import Body, Name
from app.web.openapi.resource import Resource
from app.web.services import services, wake
from schema.states import RouteSource

MOST_SHOWN = 100

resource = Resource(
    "routes", "Which queue the executions of an endpoint go to, by its name.", is_tagged=True, is_single=True
)
# It stores nothing, so a key that may only read may ask.
questions = Resource("route-tests", "What routes would do.", write_scope=Scope.READ)

_PATTERN = "Must be 1 to 128 lower-case letters, digits, hyphens, underscores, * and ?."


class RouteSchema(Schema):
    """A route: a pattern of names of endpoints, and the queue for them."""

    class Meta:
        """What marshmallow is told."""

        unknown = RAISE

    pattern = fields.String(
        required=True,
        validate=Whole(ROUTE_PATTERN, error=_PATTERN),
        metadata={"description": "`*` stands for any number of characters, `?` for one", "example": "billing-*"},
    )
    queue = queue_field(required=True, metadata={"example": "bulk"})


class NewRoutesSchema(Body):
    """All routes, in their order: the first whose pattern matches counts."""

    routes = fields.List(fields.Nested(RouteSchema), required=True, validate=validate.Length(1, MOST_ROUTES))


class RoutesSchema(Schema):
    """The routes in force."""

    routes = fields.List(fields.Nested(RouteSchema), required=True)
    source = fields.Enum(
        RouteSource,
        by_value=True,
        required=True,
        metadata={"description": "TE_ROUTES, or what PUT has set", "example": RouteSource.API.value},
    )


class RouteQuestionSchema(Body):
    """The name of an endpoint, which need not exist, and routes to try instead of those in force."""

    endpoint = Name(required=True, metadata={"example": "billing-eu"})
    routes = fields.List(fields.Nested(RouteSchema), validate=validate.Length(max=MOST_ROUTES))


class MoveSchema(Schema):
    """A live endpoint that would be routed elsewhere."""

    endpoint = Name(required=True)
    before = fields.String(required=True, metadata={"example": "http"})
    after = fields.String(required=True, metadata={"example": "bulk"})


class RouteAnswerSchema(Schema):
    """The queue for an endpoint of that name that names none itself."""

    queue = fields.String(
        required=True,
        allow_none=True,
        metadata={"description": "`null` for that of its transport, where no endpoint has the name", "example": "bulk"},
    )
    pattern = fields.String(required=True, allow_none=True, metadata={"example": "billing-*"})
    position = fields.Integer(
        required=True, allow_none=True, metadata={"description": "of the route, from 0", "example": 0}
    )
    is_default = fields.Boolean(required=True, metadata={"description": "no route matches", "example": False})
    moves = fields.List(
        fields.Nested(MoveSchema), metadata={"description": f"with `routes`: the first {MOST_SHOWN} that would move"}
    )
    move_count = fields.Integer(metadata={"description": "with `routes`: how many would move"})


@resource.route("GET", "/routes", returns=RoutesSchema)
def get() -> Any:
    """Get the routes."""
    found = endpoint_queues.load(services().database)
    return unless_known(_shape(found), found.tag)


@resource.route("PUT", "/routes", body=NewRoutesSchema, returns=RoutesSchema)
def replace(body: dict[str, Any]) -> Any:
    """Replace all routes, for the executions that are created from now on; what waits stays in its queue."""
    return _answer(endpoint_queues.change_routes(services().database, _routes(body), RouteSource.API, change()))


@resource.route("DELETE", "/routes", returns=RoutesSchema)
def delete() -> Any:
    """Go back to the routes of TE_ROUTES, as this process has them."""
    routes = [Route(*pair) for pair in services().settings.routes]
    return _answer(endpoint_queues.change_routes(services().database, routes, RouteSource.ENVIRONMENT, change()))


@questions.route("POST", "/routes/test", body=RouteQuestionSchema, returns=RouteAnswerSchema)
def test(body: dict[str, Any]) -> dict[str, Any]:
    """Say which queue an endpoint's name leads to, and with `routes` which endpoints they would move."""
    database = services().database
    routes = _routes(body) if "routes" in body else endpoint_queues.load(database).routes
    found = queue_for(routes, body["endpoint"])
    answer: dict[str, Any] = {"queue": None, "pattern": None, "position": None, "is_default": found is None}
    if found is not None:
        position, route = found
        answer |= {"queue": route.queue, "pattern": route.pattern, "position": position}
    else:
        answer["queue"] = _of_transport(body["endpoint"])
    if "routes" in body:
        moves = endpoint_queues.moves(database, routes)
        answer["moves"] = list(islice(moves, MOST_SHOWN))
        answer["move_count"] = len(answer["moves"]) + sum(1 for _ in moves)
    return answer


def _of_transport(name: str) -> str | None:
    try:
        return versions.get(services().database, name).definition.type.queue
    except EndpointNotFoundError:
        return None


def _routes(body: dict[str, Any]) -> list[Route]:
    return [Route(**route) for route in body["routes"]]


def _answer(found: Routing) -> Any:
    for queue in {route.queue for route in found.routes}:
        # Workers look for queues that they do not know.
        wake(queue)
    return tagged(_shape(found), found.tag)


def _shape(found: Routing) -> dict[str, Any]:
    return {"routes": found.routes, "source": found.source}
