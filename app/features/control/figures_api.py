"""/stats/figures and /stats/endpoints."""

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from marshmallow import Schema, fields, validate

from app.features.control.endpoint_states import EndpointStates
from app.features.control.shared_figures import shared_figures
from app.features.control.statistics import MAX_ENDPOINTS, Hold
from app.features.control.stats_api import PercentilesSchema
from app.features.control.store import WorkerState
from app.features.control.trouble import BUDGET_MS, EndpointOrder, EndpointState, Trouble, ordered
from app.features.dead_letters import metrics as dead_letters
from app.features.queues import store as queues
from app.features.queues.api import QueueSchema
from app.features.rollups.distribution import PERCENTILES, Distribution
from app.features.rollups.endpoint_rollups import PARTS
from app.web.http.body import invalid
from app.web.http.request_fields import Body, Count, Delay, Instant
from app.web.openapi.resource import Resource
from schema.states import BreakerState

resource = Resource("figures", "Figures of the whole service and of its endpoints.")

HOUR_MS = 3_600_000
MIN_WINDOW, MAX_WINDOW = timedelta(minutes=1), timedelta(days=90)
SHOWN, MAX_SHOWN = 100, 1_000
_STATE = validate.OneOf([BreakerState.OPEN.value, BreakerState.HALF_OPEN.value])


class HeldSchema(Schema):
    """An endpoint whose executions wait although workers have capacity."""

    endpoint = fields.String(required=True, metadata={"example": "send-mail"})
    hold = fields.Enum(
        Hold, by_value=True, required=True, metadata={"description": "what holds it back", "example": Hold.RATE.value}
    )
    waiting = fields.Integer(required=True, metadata={"description": "up to 1,000 are counted", "example": 412})
    seconds = fields.Float(
        required=True, allow_none=True, metadata={"description": "until its rate admits the next", "example": 0.4}
    )


class OpenLettersSchema(Schema):
    """Open dead letters of an endpoint."""

    endpoint = fields.String(required=True, metadata={"example": "send-mail"})
    letters = fields.Integer(
        required=True,
        metadata={"description": f"up to {dead_letters.MAX_LETTERS:,} are counted", "example": 12},
    )


class FleetSchema(Schema):
    """Worker processes by state, and the slots of live ones."""

    by_state = fields.Dict(
        keys=fields.Enum(WorkerState, by_value=True), values=fields.Integer(), required=True, metadata={"example": {}}
    )
    capacity = fields.Integer(required=True, metadata={"example": 800})
    in_flight = fields.Integer(required=True, metadata={"example": 312})


class FiguresSchema(Schema):
    """Figures of the whole service at one time."""

    read_at = Instant(required=True)
    queues = fields.List(
        fields.Nested(QueueSchema),
        required=True,
        metadata={"description": f"the first {queues.MAX_QUEUES}; `queues_left_out` more have waiting executions"},
    )
    queues_left_out = fields.Integer(required=True)
    held = fields.List(
        fields.Nested(HeldSchema),
        required=True,
        metadata={"description": f"out of the first {MAX_ENDPOINTS:,} endpoints that are paused or have limits"},
    )
    paused_endpoints = fields.Integer(required=True)
    open_breakers = fields.Integer(required=True)
    half_open_breakers = fields.Integer(required=True)
    workers = fields.Nested(FleetSchema, required=True)
    schedules_behind_seconds = fields.Float(required=True, metadata={"description": "age of the most overdue tick"})
    letters = fields.List(
        fields.Nested(OpenLettersSchema),
        required=True,
        metadata={"description": f"of the first {dead_letters.MAX_ENDPOINTS} endpoints with open dead letters"},
    )
    late_ends = fields.Integer(
        required=True,
        metadata={"description": f"completion events without their effects for {dead_letters.LATE_SECONDS:.0f} s"},
    )


class EndpointsQuery(Body):
    """Window, order and number of the endpoints."""

    window = Delay(load_default=HOUR_MS, metadata={"description": "length of time until now; default `1h`"})
    sort = fields.Enum(EndpointOrder, by_value=True, load_default=EndpointOrder.TROUBLE)
    limit = Count(load_default=SHOWN, validate=validate.Range(1, MAX_SHOWN))


class EndpointStateSchema(Schema):
    """An endpoint: deliveries of the window, and what holds it back now."""

    endpoint = fields.String(required=True, metadata={"example": "send-mail"})
    troubles = fields.List(
        fields.Enum(Trouble, by_value=True),
        required=True,
        metadata={"description": "reasons to look at it, the most urgent first", "example": [Trouble.LATE.value]},
    )
    attempts = fields.Integer(required=True, metadata={"example": 4210})
    per_second = fields.Float(required=True, metadata={"description": "of `attempts`", "example": 1.169})
    succeeded = fields.Integer(required=True)
    retried = fields.Integer(required=True)
    failed = fields.Integer(required=True)
    uncertain = fields.Integer(required=True, metadata={"description": "attempts that may have been delivered"})
    lateness_ms = fields.Nested(PercentilesSchema, required=True)
    duration_ms = fields.Nested(PercentilesSchema, required=True)
    on_time = fields.Float(
        required=True,
        allow_none=True,
        metadata={"description": f"share of the attempts that started within {BUDGET_MS} ms", "example": 0.999},
    )
    waiting = fields.Integer(
        required=True, allow_none=True, metadata={"description": "of an endpoint that is held back, up to 1,000"}
    )
    held_by = fields.Enum(
        Hold, by_value=True, required=True, allow_none=True, metadata={"example": Hold.CONCURRENCY.value}
    )
    admits_in_seconds = fields.Float(required=True, allow_none=True, metadata={"description": "if its rate holds it"})
    letters = fields.Integer(required=True, metadata={"description": "open dead letters"})
    breaker = fields.String(validate=_STATE, required=True, allow_none=True)
    breaker_until = Instant(required=True, allow_none=True)
    paused_at = Instant(required=True, allow_none=True)
    trend = fields.List(
        fields.Integer(), required=True, metadata={"description": f"attempts in each of {PARTS} parts of the window"}
    )
    failures_trend = fields.List(fields.Integer(), required=True, metadata={"description": "of `failed`"})


class EndpointStatesSchema(Schema):
    """Endpoints with deliveries in the window, or with something that holds them back."""

    from_ = Instant(data_key="from", required=True)
    until = Instant(required=True, metadata={"description": "end of the last counted slot"})
    endpoints = fields.List(fields.Nested(EndpointStateSchema), required=True)
    left_out = fields.Integer(required=True, metadata={"description": "endpoints beyond `limit`"})


@resource.route("GET", "/stats/figures", returns=FiguresSchema)
def figures() -> dict[str, Any]:
    """Show queues, endpoints that are held back, breakers, workers, schedules and dead letters.

    A web process reads the figures once in 2 s, however many clients ask.
    """
    found = shared_figures().service()
    service = found.statistics
    return {
        "read_at": found.read_at,
        "queues": service.queues,
        "queues_left_out": service.queues_left_out,
        "held": service.held,
        "paused_endpoints": service.paused_endpoints,
        "open_breakers": service.breakers[BreakerState.OPEN],
        "half_open_breakers": service.breakers[BreakerState.HALF_OPEN],
        "workers": asdict(service.workers),
        "schedules_behind_seconds": service.seconds_behind,
        "letters": service.unseen,
        "late_ends": service.late_ends,
    }


@resource.route("GET", "/stats/endpoints", query=EndpointsQuery, returns=EndpointStatesSchema)
def endpoints(query: dict[str, Any]) -> dict[str, Any]:
    """List endpoints by trouble: breakers, failures, lateness, pauses, limits and dead letters.

    Deliveries are those of the counted slots (`GET /stats/history`). A web process reads a window once in 2 s.
    """
    window = timedelta(milliseconds=query["window"])
    if not MIN_WINDOW <= window <= MAX_WINDOW:
        raise invalid([{"pointer": "window", "message": "Must be from 1m to 90d."}])
    return shape(shared_figures().endpoints(window), query["sort"], query["limit"])


def shape(found: EndpointStates, order: EndpointOrder, limit: int) -> dict[str, Any]:
    """Return the first endpoints of an order as answered."""
    states = ordered(found.states, order)
    return {
        "from_": found.window.since,
        "until": found.window.until,
        "endpoints": [_state(each) for each in states[:limit]],
        "left_out": max(0, len(states) - limit),
    }


def _state(state: EndpointState) -> dict[str, Any]:
    deliveries, held = state.deliveries, state.held
    counts = None if deliveries is None else deliveries.counts
    names = ("attempts", "succeeded", "retried", "failed", "uncertain")
    return {
        "endpoint": state.endpoint,
        "troubles": state.troubles,
        **{name: getattr(counts, name, 0) for name in names},
        "per_second": round(counts.attempts / state.seconds, 3) if counts is not None and state.seconds else 0.0,
        "lateness_ms": _percentiles(None if counts is None else counts.lateness),
        "duration_ms": _percentiles(None if counts is None else counts.duration),
        "on_time": None if counts is None else counts.lateness.within(BUDGET_MS),
        "waiting": None if held is None else held.waiting,
        "held_by": None if held is None else held.hold,
        "admits_in_seconds": None if held is None else held.seconds,
        "letters": state.letters,
        "breaker": state.breaker,
        "breaker_until": state.breaker_until,
        "paused_at": state.paused_at,
        "trend": [0] * PARTS if deliveries is None else deliveries.trend,
        "failures_trend": [0] * PARTS if deliveries is None else deliveries.failures,
    }


def _percentiles(found: Distribution | None) -> dict[str, int | None]:
    return dict.fromkeys(PERCENTILES) if found is None else found.percentiles()
