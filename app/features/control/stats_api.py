"""/stats and /health/operations."""

from itertools import islice
from typing import Any

from marshmallow import Schema, fields, validate

from app.catalog.endpoints import live_settings
from app.features.breakers import store as breakers_store
from app.features.control import deliveries
from app.features.control.deliveries import DeliveryReport
from app.features.queues import pauses
from app.features.queues import store as queues_store
from app.kernel.described_fields import answered, described
from app.web.http.request_fields import Body, Count, Instant, Name
from app.web.openapi.resource import Resource
from app.web.services import services

resource = Resource("stats", "Delivery statistics.")
operational = Resource("operations", "Conditions that need an operator.")

DEFAULT_SECONDS = 60
MAX_SECONDS = 3600
_COVERED = (
    f"less than `seconds` if more than {deliveries.NEWEST:,} executions ended in that time, "
    f"for one endpoint {deliveries.NEWEST_OF_ENDPOINT:,}"
)
_AUTHOR = "name of the API key, or cli:USER"
PAUSED_BY = {
    "description": f"{_AUTHOR}; `null` once the entry of the audit log was deleted",
    "example": "ops",
}
_LATENESS = {"description": "time from the due instant of the last attempt to its start"}


class StatsQuery(Body):
    """Period and endpoint of the report."""

    seconds = Count(load_default=DEFAULT_SECONDS, validate=validate.Range(1, MAX_SECONDS), **described("period"))
    endpoint = Name(**described("only this endpoint; any endpoint may be given", example="send-mail"))


class PercentilesSchema(Schema):
    """Percentiles in milliseconds; `null` without executions."""

    p50 = fields.Integer(**answered(null=True, example=2))
    p95 = fields.Integer(**answered(null=True, example=9))
    p99 = fields.Integer(**answered(null=True, example=21))


class DeliveriesSchema(Schema):
    """Statistics of ended and running executions."""

    ended = fields.Integer(**answered("cancelled executions included", example=4210))
    succeeded = fields.Integer(**answered(example=4200))
    failed = fields.Integer(**answered(example=10))
    per_second = fields.Float(**answered("of `ended`", example=70.167))
    lateness_ms = fields.Nested(PercentilesSchema, required=True, metadata=_LATENESS)
    duration_ms = fields.Nested(PercentilesSchema, **answered("of the last attempt"))
    in_flight = fields.Integer(**answered("running executions", example=17))


class EndpointDeliveriesSchema(DeliveriesSchema):
    """Statistics of an endpoint."""

    endpoint = Name(**answered(example="send-mail"))


class ReportSchema(Schema):
    """Delivery statistics, overall and by endpoint."""

    covered_seconds = fields.Float(**answered(_COVERED, example=60.0))
    overall = fields.Nested(DeliveriesSchema, required=True)
    endpoints = fields.List(
        fields.Nested(EndpointDeliveriesSchema),
        **answered(f"the {deliveries.MAX_ENDPOINTS} endpoints with most ended executions"),
    )


@resource.route("GET", "/stats", query=StatsQuery, returns=ReportSchema)
def get(query: dict[str, Any]) -> DeliveryReport:
    """Report number, lateness and duration of the executions that ended lately, and running executions.

    It reads a bounded number of the newest executions, so a long history does not slow it down.
    """
    database, seconds = services().database, query["seconds"]
    if "endpoint" in query:
        return deliveries.report_of(database, query["endpoint"], seconds)
    return deliveries.report(database, seconds, services().shards)


class UnservedQueueSchema(Schema):
    """A queue with due executions and without a live worker."""

    queue = fields.String(**answered(example="bulk"))
    oldest_due_at = Instant(required=True)
    oldest_due_seconds = fields.Float(**answered(example=12.5))
    due = fields.Integer(**answered(f"up to {queues_store.MAX_UNSERVED:,} are counted", example=412))


class PausedEndpointSchema(Schema):
    """A paused endpoint."""

    name = Name(required=True)
    paused_at = Instant(required=True)
    paused_by = fields.String(required=True, allow_none=True, metadata=PAUSED_BY)


class PausedQueueSchema(Schema):
    """A paused queue."""

    queue = fields.String(**answered(example="bulk"))
    paused_at = Instant(required=True)
    paused_by = fields.String(**answered(_AUTHOR, example="ops"))


class OperationsSchema(Schema):
    """Conditions that need an operator; empty lists and 0 if there are none."""

    unserved_queues = fields.List(fields.Nested(UnservedQueueSchema), required=True)
    open_breakers = fields.Integer(**answered("open or half open; `GET /breakers` lists them", example=1))
    paused_endpoints = fields.List(
        fields.Nested(PausedEndpointSchema), **answered(f"the first {live_settings.MAX_PAUSED} by name")
    )
    paused_queues = fields.List(
        fields.Nested(PausedQueueSchema), **answered(f"the first {live_settings.MAX_PAUSED} by name")
    )


@operational.route("GET", "/health/operations", returns=OperationsSchema)
def operations() -> dict[str, Any]:
    """List conditions that stop deliveries: queues without workers, open breakers, pauses.

    The status is always 200. A key is needed, unlike for `/health/live` and `/health/ready`.
    """
    database = services().database
    paused = pauses.paused(database)
    return {
        "unserved_queues": queues_store.unserved(database),
        "open_breakers": sum(breakers_store.count_by_state(database).values()),
        "paused_endpoints": live_settings.paused(database),
        "paused_queues": [
            {"queue": queue, "paused_at": pause.at, "paused_by": pause.by}
            for queue, pause in islice(paused.items(), live_settings.MAX_PAUSED)
        ],
    }
