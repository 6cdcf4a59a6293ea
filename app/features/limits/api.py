"""/endpoints/NAME/limits: current state of the limits of an endpoint and of a key."""

from typing import Any

from marshmallow import Schema, fields, validate

from app.catalog.endpoints import versions
from app.catalog.endpoints.endpoint_rows import Endpoint
from app.catalog.endpoints.limit_key import stored_key
from app.catalog.endpoints.live_settings_fields import RATE
from app.features.limits import limiter_readings
from app.features.limits.limiter_readings import MOST_COUNTED, LimiterReading
from app.features.limits.store import limiters_of
from app.kernel.errors import EndpointNotFoundError
from app.queue.claiming.endpoint_rules import readable_limits
from app.web.catalog.endpoints_api import resource
from app.web.http.request_fields import Body, Instant
from app.web.openapi.any_of import AnyOf
from app.web.services import services


class LimitsQuery(Body):
    """Query: a key whose limits are returned too."""

    key = fields.String(validate=validate.Length(max=1000), metadata={"description": "a value of `per_key.key`"})


class GateSchema(Schema):
    """Limit of the endpoint or of a key."""

    key = fields.String(required=True, allow_none=True, metadata={"description": "`null`: limit of the endpoint"})
    max_in_flight = fields.Integer(required=True, allow_none=True, metadata={"example": 20})
    in_flight = fields.Integer(required=True, metadata={"description": "number of running executions", "example": 3})
    rate = AnyOf(
        RATE,
        required=True,
        allow_none=True,
        metadata={"description": "with its defaults", "example": {"count": 100, "per": "1s", "burst": 20}},
    )
    tokens = fields.Integer(
        required=True,
        allow_none=True,
        metadata={"description": "number of executions that the rate allows to start now", "example": 17},
    )
    next_at = Instant(required=True, allow_none=True, metadata={"description": "earliest start of the next execution"})
    waiting = fields.Integer(
        required=True,
        metadata={
            "description": f"queued or waiting for a retry; counted up to {MOST_COUNTED:,}",
            "example": 12,
        },
    )


class LimitsStateSchema(Schema):
    """State of the limits of an endpoint."""

    paused_at = Instant(required=True, allow_none=True)
    gates = fields.List(
        fields.Nested(GateSchema), required=True, metadata={"description": "limit of the endpoint, then limit of `key`"}
    )


@resource.route(
    "GET", "/endpoints/<name>/limits", query=LimitsQuery, returns=LimitsStateSchema, errors=[EndpointNotFoundError]
)
def limits(query: dict[str, Any], name: str) -> dict[str, Any]:
    """Get the running and waiting executions of a limited endpoint, and the number that may start."""
    database, key = services().database, stored_key(query["key"]) if "key" in query else ""
    endpoint = versions.get(database, name)
    found = readable_limits(endpoint.limits, name)
    gates = limiters_of(found, name, key, most_ahead=1) if found else ()
    readings = [limiter_readings.read_limiter(database, gate) for gate in gates]
    return {"paused_at": endpoint.paused_at, "gates": [_state(reading, endpoint) for reading in readings]}


def _state(reading: LimiterReading, endpoint: Endpoint) -> dict[str, Any]:
    database, gate = services().database, reading.gate
    if gate.limit_key:
        queue, shards = endpoint.queue_in_effect, services().shards
        waiting = limiter_readings.waiting_of_key(database, gate.endpoint, gate.limit_key, queue=queue, shards=shards)
    else:
        waiting = limiter_readings.waiting(database, gate.endpoint)
    return {
        "key": gate.limit_key[1:] if gate.limit_key else None,
        "max_in_flight": gate.max_in_flight,
        "in_flight": reading.state.in_flight,
        "rate": gate.rate.as_json() if gate.rate is not None else None,
        "tokens": reading.tokens,
        "next_at": reading.next_at(),
        "waiting": waiting,
    }


__all__ = ["resource"]
