"""/endpoints/NAME/limits: current state of the limits of an endpoint and of a key."""

from typing import Any

from marshmallow import Schema, fields, validate

from app.catalog.endpoints import versions
from app.catalog.endpoints.endpoint_rows import Endpoint
from app.catalog.endpoints.limits import stored_key
from app.catalog.endpoints.live_settings_fields import RATE
from app.features.limits.rules import limiters_of
from app.features.limits.store import MAX_COUNTED, LimiterReading, read_limiter, waiting_of_endpoints, waiting_of_key
from app.kernel.described_fields import answered, described
from app.kernel.errors import EndpointNotFoundError
from app.queue.claiming.endpoint_rules import readable_limits
from app.web.catalog.endpoints_api import resource
from app.web.http.request_fields import Body, Instant
from app.web.openapi.any_of import AnyOf
from app.web.services import services


class LimitsQuery(Body):
    """Query: a key, to return its limits too."""

    key = fields.String(validate=validate.Length(max=1000), **described("a value of `per_key.key`"))


class GateSchema(Schema):
    """Limit of the endpoint or of a key."""

    key = fields.String(**answered("`null`: limit of the endpoint", null=True))
    max_in_flight = fields.Integer(**answered(null=True, example=20))
    in_flight = fields.Integer(**answered("number of running executions", example=3))
    rate = AnyOf(RATE, **answered("with its defaults", null=True, example={"count": 100, "per": "1s", "burst": 20}))
    tokens = fields.Integer(**answered("executions that may start now", null=True, example=17))
    next_at = Instant(**answered("earliest start of the next execution", null=True))
    waiting = fields.Integer(**answered(f"queued or waiting for a retry; counted up to {MAX_COUNTED:,}", example=12))


class LimitsStateSchema(Schema):
    """State of the limits of an endpoint."""

    paused_at = Instant(required=True, allow_none=True)
    gates = fields.List(fields.Nested(GateSchema), **answered("limit of the endpoint, then limit of `key`"))


@resource.route(
    "GET", "/endpoints/<name>/limits", query=LimitsQuery, returns=LimitsStateSchema, errors=[EndpointNotFoundError]
)
def limits(query: dict[str, Any], name: str) -> dict[str, Any]:
    """Get the running and waiting executions of a limited endpoint, and the number that may start."""
    return state_of_limits(versions.get(services().database, name), stored_key(query["key"]) if "key" in query else "")


def state_of_limits(endpoint: Endpoint, key: str = "") -> dict[str, Any]:
    """Read the state of the limits of an endpoint, and of a stored key."""
    found = readable_limits(endpoint.limits, endpoint.name)
    limiters = limiters_of(found, endpoint.name, key, most_ahead=1) if found else ()
    states = [_state(read_limiter(services().database, limiter), endpoint) for limiter in limiters]
    return {"paused_at": endpoint.paused_at, "gates": states}


def _state(reading: LimiterReading, endpoint: Endpoint) -> dict[str, Any]:
    database, limiter = services().database, reading.limiter
    if limiter.limit_key:
        queue, shards = endpoint.queue_in_effect, services().shards
        waiting = waiting_of_key(database, endpoint.name, limiter.limit_key, queue=queue, shards=shards)
    else:
        waiting = waiting_of_endpoints(database, [endpoint.name]).get(endpoint.name, 0)
    return {
        "key": limiter.limit_key[1:] if limiter.limit_key else None,
        "max_in_flight": limiter.max_in_flight,
        "in_flight": reading.state.in_flight,
        "rate": limiter.rate.as_json() if limiter.rate is not None else None,
        "tokens": reading.tokens,
        "next_at": reading.next_at(),
        "waiting": waiting,
    }


__all__ = ["resource"]
