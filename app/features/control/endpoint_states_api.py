"""/stats/endpoints."""

from datetime import timedelta
from typing import Any

from marshmallow import Schema, fields, validate

from app.features.control import figures_api
from app.features.control.endpoint_states import EndpointStates
from app.features.control.shared_figures import shared_figures
from app.features.control.statistics import Hold
from app.features.control.stats_api import PAUSED_BY, PercentilesSchema
from app.features.control.trouble import BUDGET_MS, EndpointOrder, EndpointState, Trouble, ordered
from app.features.rollups.distribution import PERCENTILES, Distribution
from app.features.rollups.endpoint_rollups import PARTS
from app.kernel.described_fields import answered, described
from app.web.http.body import invalid
from app.web.http.request_fields import Body, Count, Delay, Instant
from schema.states import BreakerState

resource = figures_api.resource

HOUR_MS = 3_600_000
MIN_WINDOW, MAX_WINDOW = timedelta(minutes=1), timedelta(days=90)
SHOWN, MAX_SHOWN = 100, 1_000
_STATE = validate.OneOf([BreakerState.OPEN.value, BreakerState.HALF_OPEN.value])


class EndpointsQuery(Body):
    """Window, order and number of the endpoints."""

    window = Delay(load_default=HOUR_MS, **described("length of time until now; default `1h`"))
    sort = fields.Enum(EndpointOrder, by_value=True, load_default=EndpointOrder.TROUBLE)
    limit = Count(load_default=SHOWN, validate=validate.Range(1, MAX_SHOWN))


class EndpointStateSchema(Schema):
    """An endpoint: deliveries of the window, and its present holds."""

    endpoint = fields.String(**answered(example="send-mail"))
    troubles = fields.List(
        fields.Enum(Trouble, by_value=True),
        **answered("reasons to look at it, the most urgent first", example=[Trouble.LATE.value]),
    )
    attempts = fields.Integer(**answered(example=4210))
    per_second = fields.Float(**answered("of `attempts`", example=1.169))
    succeeded = fields.Integer(required=True)
    retried = fields.Integer(required=True)
    failed = fields.Integer(required=True)
    uncertain = fields.Integer(**answered("attempts that may have been delivered"))
    lateness_ms = fields.Nested(PercentilesSchema, required=True)
    duration_ms = fields.Nested(PercentilesSchema, required=True)
    on_time = fields.Float(
        **answered(f"share of the attempts that started within {BUDGET_MS} ms", null=True, example=0.999)
    )
    waiting = fields.Integer(**answered("of an endpoint that is held back, up to 1,000", null=True))
    held_by = fields.Enum(Hold, by_value=True, **answered(null=True, example=Hold.CONCURRENCY.value))
    admits_in_seconds = fields.Float(**answered("if its rate holds it", null=True))
    letters = fields.Integer(**answered("open dead letters"))
    breaker = fields.String(validate=_STATE, required=True, allow_none=True)
    breaker_until = Instant(required=True, allow_none=True)
    paused_at = Instant(required=True, allow_none=True)
    paused_by = fields.String(required=True, allow_none=True, metadata=PAUSED_BY)
    trend = fields.List(fields.Integer(), **answered(f"attempts in each of {PARTS} parts of the window"))
    failures_trend = fields.List(fields.Integer(), **answered("of `failed`"))


class EndpointStatesSchema(Schema):
    """Endpoints with deliveries in the window, or with something that holds them back."""

    from_ = Instant(data_key="from", required=True)
    until = Instant(**answered("end of the last counted slot"))
    endpoints = fields.List(fields.Nested(EndpointStateSchema), required=True)
    left_out = fields.Integer(**answered("endpoints beyond `limit`"))


@resource.route("GET", "/stats/endpoints", query=EndpointsQuery, returns=EndpointStatesSchema)
def endpoints(query: dict[str, Any]) -> dict[str, Any]:
    """List endpoints by trouble: breakers, failures, lateness, pauses, limits and dead letters.

    Deliveries come from the counted slots (`GET /stats/history`). A web process reads a window once in 2 s.
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
        "paused_by": state.paused_by,
        "trend": [0] * PARTS if deliveries is None else deliveries.trend,
        "failures_trend": [0] * PARTS if deliveries is None else deliveries.failures,
    }


def _percentiles(found: Distribution | None) -> dict[str, int | None]:
    return dict.fromkeys(PERCENTILES) if found is None else found.percentiles()
