"""/stats/history."""

from datetime import datetime, timedelta
from typing import Any

from marshmallow import Schema, fields, validate

from app.features.rollups import delivery_history, rollup_slots
from app.features.rollups.delivery_history import ALL, MAX_POINTS, DeliveryHistory, Point, Range, read_history
from app.features.rollups.distribution import Distribution
from app.features.rollups.rollup_statements import COUNTS, FAILURE_COUNTS, MAX_ERROR_TYPES
from app.features.rollups.samples import FLEET
from app.kernel.described_fields import answered, described
from app.kernel.formats import rfc3339
from app.web.http.body import invalid
from app.web.http.request_fields import Body, Count, Delay, Instant, QueryInstant
from app.web.openapi.resource import Resource
from app.web.services import services
from schema.rollup_bounds import LATE_MS, STEPS_S, TOOK_MS

resource = Resource("history", "Deliveries over time.")

MAX_STEP_S = 86_400
HOUR_MS = 3_600_000
_BOUND = "upper bound of its class; one more than the last bound if it is larger"


class DeliveryHistoryQuery(Body):
    """Period, step, endpoint and queue of the history."""

    last = Delay(**described("without `from`: length of the period until `until`; default `1h`"))
    from_ = QueryInstant(data_key="from")
    until = QueryInstant(**described("default: now"))
    step = Count(
        validate=validate.Range(STEPS_S[0], MAX_STEP_S),
        **described(
            f"seconds of a point, a multiple of {STEPS_S[0]}; default: "
            f"{delivery_history.USUAL_POINTS} points at most, from the slots that are kept"
        ),
    )
    endpoint = fields.String(
        validate=validate.Length(1, 128),
        **described(
            "only this endpoint; `*`: the sum of endpoints that are not among the busiest of a slot",
            example="send-mail",
        ),
    )
    queue = fields.String(
        validate=validate.Length(1, 128), **described("gauges of this queue instead of the whole fleet", example="http")
    )
    histograms = fields.Boolean(load_default=False, **described("with the counts of each class"))


class ClassesSchema(Schema):
    """Percentiles in milliseconds, `null` without values; with `histograms` also the counts of the classes."""

    p50 = fields.Integer(**answered(_BOUND, null=True, example=5))
    p95 = fields.Integer(**answered(null=True, example=25))
    p99 = fields.Integer(**answered(null=True, example=100))
    counts = fields.List(fields.Integer(), **described("by the bounds of the answer; one more class follows"))


class PointSchema(Schema):
    """One step. Figures are `null` where nobody counted: a gap, not zero."""

    at = Instant(**answered("start of the step"))
    counted_seconds = fields.Integer(**answered("seconds of the step that are counted; 0: a gap", example=60))
    attempts = fields.Integer(**answered(null=True, example=4210))
    succeeded = fields.Integer(**answered(null=True, example=4200))
    retried = fields.Integer(**answered("failed attempts with another to follow", null=True, example=8))
    failed = fields.Integer(**answered("executions that failed for good", null=True, example=2))
    cancelled = fields.Integer(**answered(null=True, example=0))
    unsent = fields.Integer(**answered("of `failed` and `cancelled`: ended without an attempt", null=True, example=0))
    uncertain = fields.Integer(**answered("attempts that may have been delivered", null=True, example=0))
    lost = fields.Integer(**answered("attempts whose worker was lost or stuck", null=True))
    lateness_ms = fields.Nested(
        ClassesSchema, **answered("time from the due instant of an attempt to its start", null=True)
    )
    duration_ms = fields.Nested(ClassesSchema, required=True, allow_none=True)
    due = fields.Integer(**answered("the most within the step, as are the next four", null=True))
    oldest_due_ms = fields.Integer(required=True, allow_none=True)
    workers = fields.Integer(required=True, allow_none=True)
    in_flight = fields.Integer(**answered("of the whole fleet only", null=True))
    slots = fields.Integer(**answered("of the whole fleet only", null=True))


class FailureSchema(Schema):
    """Failed attempts of one type of error."""

    error_type = fields.String(**answered(example="TIMEOUT"))
    failed = fields.Integer(required=True)
    retried = fields.Integer(required=True)
    uncertain = fields.Integer(required=True)


class DeliveryHistorySchema(Schema):
    """Deliveries in equal steps of time."""

    from_ = Instant(data_key="from", required=True)
    until = Instant(required=True)
    step_seconds = fields.Integer(**answered(example=10))
    endpoint = fields.String(required=True, allow_none=True)
    queue = fields.String(required=True, allow_none=True)
    counted_until = Instant(**answered("end of the last counted slot; `null`: none yet", null=True))
    lateness_bounds_ms = fields.List(fields.Integer(), required=True)
    duration_bounds_ms = fields.List(fields.Integer(), required=True)
    points = fields.List(fields.Nested(PointSchema), required=True)
    failures = fields.List(
        fields.Nested(FailureSchema), **answered(f"of the whole period; the {MAX_ERROR_TYPES} most frequent types")
    )

    def dump(self, obj: Any, *, many: bool | None = None) -> Any:  # noqa: ARG002
        """Return the answer unchanged: it is ready for JSON."""
        return obj


@resource.route("GET", "/stats/history", query=DeliveryHistoryQuery, returns=DeliveryHistorySchema)
def get(query: dict[str, Any]) -> dict[str, Any]:
    """Show how many deliveries ended in each step of a period, how late they started and how long they took.

    A scheduler counts each slot of 10 s once, some seconds after its end. Slots are kept as they are for 3 hours, in
    minutes for 3 days, and in hours for TE_ROLLUP_DAYS. The TE_ROLLUP_ENDPOINTS busiest endpoints of a slot have counts
    of their own; the rest share a sum (`endpoint=*`).
    """
    database = services().database
    marks = rollup_slots.marks(database)
    endpoint, queue = query.get("endpoint", ALL), query.get("queue", FLEET)
    found = read_history(database, wanted_range(query, marks.now), marks, endpoint=endpoint, queue=queue)
    return shape(found, histograms=query["histograms"])


def wanted_range(query: dict[str, Any], now: datetime) -> Range:
    """Return the range of a query; raises InvalidRequestError."""
    until, step = query.get("until", now), query.get("step", 0)
    since = query.get("from_") or until - timedelta(milliseconds=query.get("last", HOUR_MS))
    if since >= until:
        pointer = "from" if "from_" in query else "last"
        raise invalid([{"pointer": pointer, "message": f"Must begin before `until`, which is {rfc3339(until)}."}])
    if step % STEPS_S[0]:
        raise invalid([{"pointer": "step", "message": f"Must be a multiple of {STEPS_S[0]}."}])
    found = Range.of(since, until, step, now)
    if found.steps > MAX_POINTS:
        raise invalid([{"pointer": "step", "message": f"Must give at most {MAX_POINTS:,} points: use a longer step."}])
    return found


def shape(found: DeliveryHistory, *, histograms: bool) -> dict[str, Any]:
    """Return a history as answered, ready for JSON."""
    return {
        "from": rfc3339(found.range.since),
        "until": rfc3339(found.range.until),
        "step_seconds": found.range.step_s,
        "endpoint": found.endpoint or None,
        "queue": found.queue or None,
        "counted_until": None if found.counted_until is None else rfc3339(found.counted_until),
        "lateness_bounds_ms": [*LATE_MS],
        "duration_bounds_ms": [*TOOK_MS],
        "points": [_point(point, histograms=histograms) for point in found.points],
        "failures": [
            {"error_type": row.error_type, **{name: getattr(row, name) for name in FAILURE_COUNTS}}
            for row in found.failures
        ],
    }


def _point(point: Point, *, histograms: bool) -> dict[str, Any]:
    counts, gauges = point.counts, point.gauges
    return {
        "at": rfc3339(point.at),
        "counted_seconds": point.counted_seconds,
        **{name: getattr(counts, name, None) for name in COUNTS},
        "lateness_ms": None if counts is None else _classes(counts.lateness, histograms=histograms),
        "duration_ms": None if counts is None else _classes(counts.duration, histograms=histograms),
        "oldest_due_ms": getattr(gauges, "oldest_ms", None),
        **{name: getattr(gauges, name, None) for name in ("due", "workers", "in_flight", "slots")},
    }


def _classes(found: Distribution, *, histograms: bool) -> dict[str, Any]:
    shown: dict[str, Any] = found.percentiles()
    return {**shown, "counts": [*found.counts]} if histograms else shown
