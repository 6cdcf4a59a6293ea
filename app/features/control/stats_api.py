"""/stats."""

from typing import Any

from marshmallow import Schema, fields, validate

from app.features.control import deliveries
from app.features.control.deliveries import Report
from app.web.http.request_fields import Body, Count, Name
from app.web.openapi.resource import Resource
from app.web.services import services

resource = Resource("stats", "How deliveries fare.")

DEFAULT_SECONDS = 60
MAX_SECONDS = 3600


class StatsQuery(Body):
    """What is looked at."""

    seconds = Count(
        load_default=DEFAULT_SECONDS,
        validate=validate.Range(1, MAX_SECONDS),
        metadata={"description": "how long ago it ended at most"},
    )
    endpoint = Name(metadata={"description": "of this endpoint alone", "example": "send-mail"})


class PercentilesSchema(Schema):
    """Milliseconds that half of the executions, 95 and 99 in 100 do not exceed; `null` without any."""

    p50 = fields.Integer(required=True, allow_none=True, metadata={"example": 2})
    p95 = fields.Integer(required=True, allow_none=True, metadata={"example": 9})
    p99 = fields.Integer(required=True, allow_none=True, metadata={"example": 21})


class DeliveriesSchema(Schema):
    """Figures of what has ended, and what runs now."""

    ended = fields.Integer(required=True, metadata={"description": "cancelled executions included", "example": 4210})
    succeeded = fields.Integer(required=True, metadata={"example": 4200})
    failed = fields.Integer(required=True, metadata={"example": 10})
    per_second = fields.Float(required=True, metadata={"description": "of `ended`", "example": 70.167})
    lateness_ms = fields.Nested(
        PercentilesSchema,
        required=True,
        metadata={"description": "from the instant at which the last attempt was due to its beginning"},
    )
    duration_ms = fields.Nested(PercentilesSchema, required=True, metadata={"description": "of the last attempt"})
    in_flight = fields.Integer(required=True, metadata={"description": "executions that run", "example": 17})


class EndpointDeliveriesSchema(DeliveriesSchema):
    """Figures of an endpoint."""

    endpoint = Name(required=True, metadata={"example": "send-mail"})


class ReportSchema(Schema):
    """How deliveries fare, overall and by endpoint."""

    covered_seconds = fields.Float(
        required=True,
        metadata={
            "description": f"what the figures are about: less than `seconds` where more than {deliveries.NEWEST:,} "
            f"executions have ended, of an endpoint more than {deliveries.NEWEST_OF_ENDPOINT:,}",
            "example": 60.0,
        },
    )
    overall = fields.Nested(DeliveriesSchema, required=True)
    endpoints = fields.List(
        fields.Nested(EndpointDeliveriesSchema),
        required=True,
        metadata={
            "description": f"the {deliveries.MOST_ENDPOINTS} of which most has ended, of those that are looked at; "
            "`endpoint` tells of any other"
        },
    )


@resource.route("GET", "/stats", query=StatsQuery, returns=ReportSchema)
def get(query: dict[str, Any]) -> Report:
    """Tell how many executions ended of late, how late they began and how long they took, and how many run.

    It looks at a bounded number of those that ended last, so it is as quick on a long history.
    """
    database, seconds = services().database, query["seconds"]
    if "endpoint" in query:
        return deliveries.report_of(database, query["endpoint"], seconds)
    return deliveries.report(database, seconds, services().shards)
