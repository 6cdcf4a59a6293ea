"""/stats."""

from typing import Any

from marshmallow import Schema, fields, validate

from app.features.control import deliveries
from app.features.control.deliveries import DeliveryReport
from app.web.http.request_fields import Body, Count, Name
from app.web.openapi.resource import Resource
from app.web.services import services

resource = Resource("stats", "Delivery statistics.")

DEFAULT_SECONDS = 60
MAX_SECONDS = 3600


class StatsQuery(Body):
    """Period and endpoint of the report."""

    seconds = Count(
        load_default=DEFAULT_SECONDS,
        validate=validate.Range(1, MAX_SECONDS),
        metadata={"description": "executions that ended within so many seconds"},
    )
    endpoint = Name(metadata={"description": "only of this endpoint", "example": "send-mail"})


class PercentilesSchema(Schema):
    """Percentiles in milliseconds; `null` without executions."""

    p50 = fields.Integer(required=True, allow_none=True, metadata={"example": 2})
    p95 = fields.Integer(required=True, allow_none=True, metadata={"example": 9})
    p99 = fields.Integer(required=True, allow_none=True, metadata={"example": 21})


class DeliveriesSchema(Schema):
    """Statistics of ended and running executions."""

    ended = fields.Integer(required=True, metadata={"description": "cancelled executions included", "example": 4210})
    succeeded = fields.Integer(required=True, metadata={"example": 4200})
    failed = fields.Integer(required=True, metadata={"example": 10})
    per_second = fields.Float(required=True, metadata={"description": "of `ended`", "example": 70.167})
    lateness_ms = fields.Nested(
        PercentilesSchema,
        required=True,
        metadata={"description": "time from the due instant of the last attempt to its start"},
    )
    duration_ms = fields.Nested(PercentilesSchema, required=True, metadata={"description": "of the last attempt"})
    in_flight = fields.Integer(required=True, metadata={"description": "running executions", "example": 17})


class EndpointDeliveriesSchema(DeliveriesSchema):
    """Statistics of an endpoint."""

    endpoint = Name(required=True, metadata={"example": "send-mail"})


class ReportSchema(Schema):
    """Delivery statistics, overall and by endpoint."""

    covered_seconds = fields.Float(
        required=True,
        metadata={
            "description": f"period of the report: less than `seconds` if more than {deliveries.NEWEST:,} "
            f"executions ended in it, for one endpoint more than {deliveries.NEWEST_OF_ENDPOINT:,}",
            "example": 60.0,
        },
    )
    overall = fields.Nested(DeliveriesSchema, required=True)
    endpoints = fields.List(
        fields.Nested(EndpointDeliveriesSchema),
        required=True,
        metadata={
            "description": f"the {deliveries.MOST_ENDPOINTS} endpoints with most ended executions; "
            "query any other one with `endpoint`"
        },
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
