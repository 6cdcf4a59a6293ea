"""Flow of an endpoint: PATCH, pause, resume."""

from typing import Any

from marshmallow import Schema, fields, validate

from app.catalog.endpoints import live_settings, versions
from app.catalog.endpoints.endpoint_rows import Endpoint
from app.catalog.endpoints.limit_key import stored_key
from app.catalog.endpoints.live_settings_fields import RATE
from app.features.limits import reasons as gates
from app.features.limits.reasons import GateReading
from app.features.limits.store import gates_of
from app.kernel.errors import EndpointNotFoundError, TemplateError
from app.queue.claiming.endpoint_rules import readable_limits
from app.web.catalog.endpoints_api import EndpointSchema, FlowSchema, flow_of, resource, shape
from app.web.http.conditions import change, tagged
from app.web.http.request_fields import Body, Instant
from app.web.openapi.any_of import AnyOf
from app.web.services import services, wake


class LimitsQuery(Body):
    """A key whose limits are asked for as well."""

    key = fields.String(validate=validate.Length(max=1000), metadata={"description": "a value of `per_key.key`"})


class GateSchema(Schema):
    """One limit: that of the endpoint, or of a key."""

    key = fields.String(required=True, allow_none=True, metadata={"description": "`null` for the endpoint's own"})
    max_in_flight = fields.Integer(required=True, allow_none=True, metadata={"example": 20})
    in_flight = fields.Integer(required=True, metadata={"description": "how many run now", "example": 3})
    rate = AnyOf(
        RATE,
        required=True,
        allow_none=True,
        metadata={"description": "with its defaults", "example": {"count": 100, "per": "1s", "burst": 20}},
    )
    tokens = fields.Integer(
        required=True, allow_none=True, metadata={"description": "how many the rate lets start now", "example": 17}
    )
    next_at = Instant(required=True, allow_none=True, metadata={"description": "when it lets the next one start"})
    waiting = fields.Integer(
        required=True,
        metadata={"description": f"queued, or for a retry; up to {gates.MOST_COUNTED:,} are counted", "example": 12},
    )


class LimitsStateSchema(Schema):
    """What the limits of an endpoint let through now."""

    paused_at = Instant(required=True, allow_none=True)
    gates = fields.List(
        fields.Nested(GateSchema), required=True, metadata={"description": "the endpoint's own, and that of `key`"}
    )


@resource.route(
    "PATCH",
    "/endpoints/<name>",
    body=FlowSchema,
    returns=EndpointSchema,
    errors=[EndpointNotFoundError, TemplateError],
)
def patch(body: dict[str, Any], name: str) -> Any:
    """Change the queue, priority, limits or breaker of an endpoint, in the same version.

    Limits and the breaker count within a second, also for what waits already. A queue and a priority are those of the
    executions that are created from now on. A key of limits is that of jobs created from now on.
    """
    return _answer(live_settings.change_flow(services().database, name, flow_of(body), change()))


@resource.route("POST", "/endpoints/<name>/pause", returns=EndpointSchema, errors=[EndpointNotFoundError])
def pause(name: str) -> Any:
    """Let nothing of an endpoint start, from a second later at most until it is resumed; what runs goes on.

    Its jobs are accepted meanwhile, and its executions wait. Pausing it again changes nothing.
    """
    return _answer(live_settings.pause(services().database, name, change()))


@resource.route("POST", "/endpoints/<name>/resume", returns=EndpointSchema, errors=[EndpointNotFoundError])
def resume(name: str) -> Any:
    """Let executions of an endpoint start again, those that wait included."""
    return _answer(live_settings.resume(services().database, name, change()))


@resource.route(
    "GET", "/endpoints/<name>/limits", query=LimitsQuery, returns=LimitsStateSchema, errors=[EndpointNotFoundError]
)
def limits(query: dict[str, Any], name: str) -> dict[str, Any]:
    """Tell what runs and waits behind the limits of an endpoint, and how many may start."""
    database, key = services().database, stored_key(query["key"]) if "key" in query else ""
    endpoint = versions.get(database, name)
    found = readable_limits(endpoint.limits, name)
    readings = [gates.read_gate(database, gate) for gate in (gates_of(found, name, key, most_ahead=1) if found else ())]
    return {"paused_at": endpoint.paused_at, "gates": [_state(reading, endpoint) for reading in readings]}


def _state(reading: GateReading, endpoint: Endpoint) -> dict[str, Any]:
    database, gate = services().database, reading.gate
    if gate.limit_key:
        queue, shards = endpoint.queue_in_effect, services().shards
        waiting = gates.waiting_of_key(database, gate.endpoint, gate.limit_key, queue=queue, shards=shards)
    else:
        waiting = gates.waiting(database, gate.endpoint)
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


def _answer(endpoint: Endpoint) -> Any:
    # Whoever looks for work learns of the change.
    wake(endpoint.queue_in_effect)
    return tagged(shape(endpoint), endpoint.tag)
