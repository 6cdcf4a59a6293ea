"""/stats/figures."""

from typing import Any

from marshmallow import Schema, fields

from app.features.control.shared_figures import shared_figures
from app.features.control.statistics import MAX_ENDPOINTS, Hold
from app.features.control.store import WorkerState
from app.features.dead_letters import metrics as dead_letters
from app.features.queues import store as queues
from app.features.queues.api import QueueSchema
from app.kernel.described_fields import answered
from app.web.http.request_fields import Instant
from app.web.openapi.resource import Resource
from schema.states import BreakerState

resource = Resource("figures", "Figures of the whole service and of its endpoints.")


class HeldSchema(Schema):
    """An endpoint with waiting executions although workers have capacity."""

    endpoint = fields.String(**answered(example="send-mail"))
    hold = fields.Enum(Hold, by_value=True, **answered("what holds it back", example=Hold.RATE.value))
    waiting = fields.Integer(**answered("up to 1,000 are counted", example=412))
    seconds = fields.Float(**answered("until its rate admits the next", null=True, example=0.4))


class OpenLettersSchema(Schema):
    """Open dead letters of an endpoint."""

    endpoint = fields.String(**answered(example="send-mail"))
    letters = fields.Integer(**answered(f"up to {dead_letters.MAX_LETTERS:,} are counted", example=12))


class FleetSchema(Schema):
    """Worker processes by state, and the slots of live processes."""

    by_state = fields.Dict(
        keys=fields.Enum(WorkerState, by_value=True), values=fields.Integer(), **answered(example={})
    )
    capacity = fields.Integer(**answered(example=800))
    in_flight = fields.Integer(**answered(example=312))


class FiguresSchema(Schema):
    """Figures of the whole service at one time."""

    read_at = Instant(required=True)
    queues = fields.List(
        fields.Nested(QueueSchema),
        **answered(f"the first {queues.MAX_QUEUES}; `queues_left_out` more have waiting executions"),
    )
    queues_left_out = fields.Integer(required=True)
    held = fields.List(
        fields.Nested(HeldSchema),
        **answered(f"out of the first {MAX_ENDPOINTS:,} endpoints that are paused or have limits"),
    )
    paused_endpoints = fields.Integer(required=True)
    open_breakers = fields.Integer(required=True)
    half_open_breakers = fields.Integer(required=True)
    workers = fields.Nested(FleetSchema, required=True)
    schedules_behind_seconds = fields.Float(**answered("age of the most overdue tick"))
    letters = fields.List(
        fields.Nested(OpenLettersSchema),
        **answered(f"of the first {dead_letters.MAX_ENDPOINTS} endpoints with open dead letters"),
    )
    late_ends = fields.Integer(
        **answered(f"completion events without their effects for {dead_letters.LATE_SECONDS:.0f} s")
    )


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
        "workers": service.workers._asdict(),
        "schedules_behind_seconds": service.seconds_behind,
        "letters": service.open_letters,
        "late_ends": service.late_ends,
    }
