"""/breakers, and the reason of executions that wait for a breaker."""

from typing import Any

from marshmallow import Schema, fields

from app.features.breakers import store
from app.features.breakers.rules import Reason
from app.kernel.db.reads import Reads
from app.kernel.described_fields import answered
from app.kernel.errors import BreakerNotFoundError, ConflictError
from app.queue.reading.waiting_reasons import Explanation, Facts, QueuePosition, WaitingReason, at
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
    failed = fields.Integer(**answered("failures among `results`", null=True))
    results = fields.Integer(**answered("counted when it opened", null=True))
    changed_at = Instant(required=True)
    open_until = Instant(**answered("then a single delivery probes", null=True))
    probe_worker = fields.String(**answered("sender of the probe", null=True))
    probe_until = Instant(**answered("then any worker may probe", null=True))
    endpoints = fields.List(fields.String(), **answered("the first 100 of the target"))


class BreakerEventSchema(Schema):
    """A change of a breaker."""

    event_id = fields.String(**answered(example="evt_4d3c2b1a0f9e"))
    target = fields.String(required=True, metadata=_TARGET)
    from_state = fields.Enum(BreakerState, by_value=True, **answered(example="closed"))
    to_state = fields.Enum(BreakerState, by_value=True, **answered(example="open"))
    reason = fields.String(required=True, metadata=_REASON)
    actor = fields.String(**answered("a worker, or an API key's name", null=True))
    open_until = Instant(**answered("or the deadline of the probe", null=True))
    occurred_at = Instant(required=True)


_EVENTS = page_schema(BreakerEventSchema)


class BreakerQuery(PageQuery):
    """Filters of the list."""

    state = fields.Enum(BreakerState, by_value=True)


@resource.route("GET", "/breakers", query=BreakerQuery, returns=page_schema(BreakerSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List breakers, last changed first."""
    wanted = page_request(query)
    return page_answer(store.page(services().database, query.get("state"), wanted), query)


@resource.route("GET", "/breakers/<target>", returns=BreakerSchema, errors=[BreakerNotFoundError])
def get(target: str) -> dict[str, Any]:
    """Get the breaker of a target."""
    return store.get(services().database, target)


@resource.route("GET", "/breakers/<target>/events", query=PageQuery, returns=_EVENTS, errors=[BreakerNotFoundError])
def list_events(query: dict[str, Any], target: str) -> dict[str, Any]:
    """List the changes of a breaker, newest first; they are kept for as long as executions are."""
    page = store.events(services().database, target, page_request(query))
    return page_answer(page, query)


@resource.route("POST", "/breakers/<target>/close", returns=BreakerSchema, errors=[BreakerNotFoundError, ConflictError])
def close(target: str) -> dict[str, Any]:
    """Close the breaker of a target without a probe, and reset its counters.

    Workers apply it within a second. Closing a closed breaker changes nothing.
    """
    return store.close(services().database, target, actor().name)


class BreakerReason(WaitingReason):
    """The target of the endpoint gets no deliveries except probes."""

    statements = (store.OF_ENDPOINT,)

    def explain(
        self,
        reads: Reads,
        facts: Facts,
        line: QueuePosition,  # noqa: ARG002
        details: dict[str, Any],
    ) -> Explanation | None:
        found = store.of_endpoint(reads, facts.endpoint)
        if not found:
            return None
        breaker = found[0]
        details |= {"target": breaker.target, "breaker": breaker.state, "breaker_reason": breaker.reason}
        details["endpoints"] = list(breaker.endpoints)
        if breaker.state == BreakerState.OPEN and breaker.open_until is not None:
            until = breaker.open_until
            text = f"It is due, but nothing is sent to {breaker.target}, whose breaker is open until {at(until)}."
            return Explanation(facts.status, "BREAKER_OPEN", text, breaker.changed_at, until, details)
        text = f"It is due, but a single delivery probes {breaker.target}, whose breaker is half open; the others wait."
        return Explanation(facts.status, "BREAKER_OPEN", text, breaker.changed_at, None, details)
