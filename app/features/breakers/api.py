"""/breakers."""

from typing import Any

from marshmallow import Schema, fields

from app.features.breakers import store as breakers_store
from app.features.breakers.rules import Reason
from app.kernel.errors import BreakerNotFoundError, ConflictError
from app.web.http.conditions import actor
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Instant
from app.web.openapi.resource import Resource
from app.web.services import services
from schema.states import BreakerState

resource = Resource(
    "breakers",
    "Circuit breakers of hosts, Kafka clusters and Redis servers with recent failures. A target without a breaker is "
    "closed.",
)

_TARGET = {
    "description": "scheme, host and port; `kafka:` and the bootstrap servers; with `~` and a digest for own settings",
    "example": "https:api.example.com:443",
}
_STATE = {"example": "open", "description": "`closed`: deliver; `open`: hold; `half_open`: send a single probe"}
_REASON = {"description": ", ".join(f"`{reason}`" for reason in Reason), "example": Reason.FAILURES.value}


class BreakerSchema(Schema):
    """A breaker."""

    target = fields.String(required=True, metadata=_TARGET)
    state = fields.Enum(BreakerState, by_value=True, required=True, metadata=_STATE)
    reason = fields.String(required=True, allow_none=True, metadata=_REASON)
    failed = fields.Integer(
        required=True, allow_none=True, metadata={"description": "number of failures among `results` when it opened"}
    )
    results = fields.Integer(required=True, allow_none=True)
    changed_at = Instant(required=True)
    open_until = Instant(
        required=True, allow_none=True, metadata={"description": "from then on the next due execution is the probe"}
    )
    probe_worker = fields.String(
        required=True, allow_none=True, metadata={"description": "worker that sends the probe"}
    )
    probe_until = Instant(required=True, allow_none=True, metadata={"description": "from then on any worker may probe"})
    endpoints = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "first 100 endpoints that resolve to the target, by name"},
    )


class BreakerEventSchema(Schema):
    """A change of a breaker."""

    event_id = fields.String(required=True, metadata={"example": "evt_4d3c2b1a0f9e"})
    target = fields.String(required=True, metadata=_TARGET)
    from_state = fields.Enum(BreakerState, by_value=True, required=True, metadata={"example": "closed"})
    to_state = fields.Enum(BreakerState, by_value=True, required=True, metadata={"example": "open"})
    reason = fields.String(required=True, metadata=_REASON)
    actor = fields.String(
        required=True, allow_none=True, metadata={"description": "a worker, or the name of the API key that closed it"}
    )
    open_until = Instant(
        required=True, allow_none=True, metadata={"description": "end of the open state, or deadline of the probe"}
    )
    occurred_at = Instant(required=True)


class BreakerQuery(PageQuery):
    """Filters of the list."""

    state = fields.Enum(BreakerState, by_value=True)


@resource.route("GET", "/breakers", query=BreakerQuery, returns=page_schema(BreakerSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List breakers, last changed first."""
    wanted = page_request(query)
    return page_answer(breakers_store.page(services().database, query.get("state"), wanted), dict, query)


@resource.route("GET", "/breakers/<target>", returns=BreakerSchema, errors=[BreakerNotFoundError])
def get(target: str) -> dict[str, Any]:
    """Get the breaker of a target."""
    return breakers_store.get(services().database, target)


@resource.route(
    "GET",
    "/breakers/<target>/events",
    query=PageQuery,
    returns=page_schema(BreakerEventSchema),
    errors=[BreakerNotFoundError],
)
def list_events(query: dict[str, Any], target: str) -> dict[str, Any]:
    """List the changes of a breaker, newest first; they are kept for as long as executions are."""
    page = breakers_store.events(services().database, target, page_request(query))
    return page_answer(page, dict, query)


@resource.route("POST", "/breakers/<target>/close", returns=BreakerSchema, errors=[BreakerNotFoundError, ConflictError])
def close(target: str) -> dict[str, Any]:
    """Close the breaker of a target without a probe, and reset its counters.

    Workers apply it within a second. Closing a closed breaker changes nothing.
    """
    return breakers_store.close(services().database, target, actor().name)
