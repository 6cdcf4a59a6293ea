"""/events."""

from datetime import datetime, timedelta
from typing import Any

from flask import Response, g, request
from marshmallow import Schema, ValidationError, fields, validate

from app.features.events import store as events_store
from app.features.events.event import GROUPS, EventFilter, EventKind
from app.features.events.event_cursor import Place
from app.features.events.event_messages import beginning, message, shape_event
from app.features.events.stream import Subscription
from app.kernel.errors import EventsExpiredError
from app.kernel.formats import EPOCH, rfc3339
from app.web.http import suspension
from app.web.http.body import invalid
from app.web.http.request_fields import Body, Count, Instant, QueryInstant
from app.web.jobs.labels import LabelSelector
from app.web.openapi.resource import Resource
from app.web.services import services

EVENT_STREAM = "text/event-stream"
LAST_EVENT_ID = "Last-Event-ID"
# A place ahead of the database's clock is one of before that was set back. No place is told that is later than now,
# but the clocks of a cluster differ, and so do those of clients.
MOST_AHEAD = timedelta(seconds=1)
CLIENTS_AHEAD = timedelta(minutes=1)
MOST_PAGES = 10  # that one request for a list reads
STREAM_EXAMPLE = (
    "retry: 1000\nid: 1773565199000000\n\nid: 1773565200000000-j-job_8f3a6c1d2e4b\nevent: job.created\n"
    'data: {"event_id":"1773565200000000-j-job_8f3a6c1d2e4b","kind":"job.created"}\n\n'
)
_PLACE = "Not the id of an event, or the `next` of a page."

resource = Resource("events", "What has happened, in one order: a list to go on from, and a stream.")


class Kinds(fields.Field[frozenset[str]]):
    """Kinds of events and groups of them, with commas between them."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> frozenset[str]:  # noqa: ARG002
        kinds = frozenset(str(value).split(","))
        if not kinds <= GROUPS | {kind.value for kind in EventKind}:
            known = ", ".join([*sorted(GROUPS), *EventKind])
            raise ValidationError(f"Must be of {known}; several with commas between them.")
        return kinds


class EventQuery(Body):
    """Which events, and where to begin."""

    kind = Kinds(
        metadata={
            "type": "string",
            "description": "kinds, or groups of them, with commas between them",
            "example": "execution.failed,breaker",
        },
    )
    endpoint = fields.String(validate=validate.Length(1, 128))
    job_id = fields.String(validate=validate.Length(1, 128))
    labels = LabelSelector()
    after = fields.String(
        validate=validate.Length(1, 200),
        metadata={"description": "the id of an event, or `next` of the page before: what follows it"},
    )
    since = QueryInstant(metadata={"description": "without `after`: what has happened from then on"})
    limit = Count(load_default=50, validate=validate.Range(1, 200))


class EventSchema(Schema):
    """Something that has happened."""

    event_id = fields.String(required=True, metadata={"example": "1773565200000000-a-att_4d3c2b1a0f9e"})
    kind = fields.Enum(EventKind, by_value=True, required=True, metadata={"example": "execution.succeeded"})
    at = Instant(required=True, metadata={"description": "when it began to be written; later ones follow"})
    endpoint = fields.String(required=True, allow_none=True)
    job_id = fields.String(required=True, allow_none=True)
    execution_id = fields.String(required=True, allow_none=True)
    subject = fields.String(
        required=True,
        allow_none=True,
        metadata={"description": "id of a worker, target of a breaker, name in the catalogue"},
    )
    details = fields.Dict(required=True, metadata={"example": {"attempt": 1, "worker_id": "wrk_1", "duration_ms": 12}})


class EventPageSchema(Schema):
    """Events, the earliest first. There is always a `next`, from which to go on later."""

    items = fields.List(fields.Nested(EventSchema), required=True)
    next = fields.String(required=True, metadata={"description": "as `after`, what follows"})

    def dump(self, obj: Any, *, many: bool | None = None) -> Any:  # noqa: ARG002
        """Return the answer as it is: it is written ready for JSON."""
        return obj


@resource.route(
    "GET",
    "/events",
    query=EventQuery,
    returns=EventPageSchema,
    errors=[EventsExpiredError],
    header={
        "name": LAST_EVENT_ID,
        "in": "header",
        "description": "of a stream: the id of the last event that came; `after` in its place",
        "schema": {"type": "string"},
    },
    or_stream=EVENT_STREAM,
    text_example=STREAM_EXAMPLE,
)
def list_(query: dict[str, Any]) -> Any:
    """List what has happened, the earliest first; with `Accept: text/event-stream`, send it as it happens.

    A page may have fewer than `limit`, even none: go on from its `next`, then or later. A stream (Server-Sent Events)
    begins now, unless `after`, `Last-Event-ID` or `since` say otherwise; events come about a second late. Whoever comes
    again with the last id misses none and gets none twice, for as long as they are kept: 410 afterwards. So is an id
    that is ahead of the database's clock, which was set back then: begin anew.
    """
    wanted = EventFilter(
        kinds=query.get("kind", frozenset()),
        endpoint=query.get("endpoint"),
        job_id=query.get("job_id"),
        labels=query.get("labels", {}),
    )
    streams = request.accept_mimetypes.best_match(["application/json", EVENT_STREAM]) == EVENT_STREAM
    until, now = events_store.horizon_and_now(services().database)
    after = _after(query, until, now, streams=streams)
    if streams:
        return _stream(wanted, after)
    items: list[Any] = []
    for _ in range(MOST_PAGES):
        page = events_store.read(services().database, after, until, wanted.groups, labelled=bool(wanted.labels))
        for event in page.events:
            if wanted.wants(event):
                items.append(event)
                if len(items) == query["limit"]:
                    return _page(items, event.place)
        after = page.up_to
        if page.is_end:
            break
    return _page(items, after)


def _page(items: list[Any], up_to: Place) -> dict[str, Any]:
    return {"items": [shape_event(event) for event in items], "next": str(up_to)}


def _after(query: dict[str, Any], horizon: datetime, now: datetime, *, streams: bool) -> Place:
    given = request.headers.get(LAST_EVENT_ID, "") if streams else ""
    text = given or query.get("after")
    if text is None:
        if "since" in query:
            return Place(_since(query["since"], now))
        return Place(horizon if streams else EPOCH)
    place = Place.parse(text)
    if place is None:
        raise invalid([{"pointer": LAST_EVENT_ID if given else "after", "message": _PLACE}])
    kept = timedelta(days=services().settings.retention_days)
    if place.at < horizon - kept:
        raise EventsExpiredError("What followed that event is not kept any more: ask from a later one, or with since.")
    if place.at > now + MOST_AHEAD:
        raise EventsExpiredError(
            f"That event is ahead of the database, where it is {rfc3339(now)}: the clock was set back, or the id is "
            "none. Begin anew, with since."
        )
    return place


def _since(since: datetime, now: datetime) -> datetime:
    if since > now + CLIENTS_AHEAD:
        raise invalid([{"pointer": "since", "message": f"Must not be in the future: it is {rfc3339(now)}."}])
    return min(since, now)


def _stream(wanted: EventFilter, after: Place) -> Response:
    suspension.check_place()
    parts = [beginning(after)]
    if suspension.can_stream():
        asked = Subscription(wanted, after, g.api_key.key_id)
        streams = services().streams
        suspension.go_on(lambda sock, over, *, chunked: streams.open(asked, sock, over, chunked=chunked))
    else:
        # A thread would be held: what there is, and the client comes again.
        until = events_store.horizon(services().database)
        page = events_store.read(services().database, after, until, wanted.groups, labelled=bool(wanted.labels))
        parts += [message(event) for event in page.events if wanted.wants(event)]
        parts.append(beginning(page.up_to))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Response(iter(parts), content_type=EVENT_STREAM, headers=headers)
