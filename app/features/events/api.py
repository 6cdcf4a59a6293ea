"""/events."""

from datetime import datetime, timedelta
from typing import Any

from flask import Response, current_app, g, request
from marshmallow import Schema, ValidationError, fields, validate

from app.features.events import store as events_store
from app.features.events.event import GROUPS, Event, EventFilter, EventKind, EventPosition, beginning
from app.features.events.stream import Subscription
from app.features.events.streams import Streams
from app.kernel.described_fields import answered, described
from app.kernel.errors import EventsExpiredError
from app.kernel.formats import EPOCH, rfc3339
from app.kernel.suggestions import did_you_mean
from app.queue.reading.horizon import horizon, horizon_and_now
from app.web.http import event_stream, suspension
from app.web.http.body import invalid
from app.web.http.event_stream import EVENT_STREAM
from app.web.http.request_fields import Body, Count, Instant, QueryInstant
from app.web.jobs.labels import LabelSelector
from app.web.openapi.resource import Resource, text_answer
from app.web.services import services

LAST_EVENT_ID = "Last-Event-ID"
EXTENSION = "task_executor_streams"
# A position ahead of the database's clock was made before that clock was set back: no position later than now is ever
# returned. The slack covers the different clocks of a cluster and of clients.
MAX_AHEAD = timedelta(seconds=1)
CLIENTS_AHEAD = timedelta(minutes=1)
MAX_PAGES = 10  # pages read for one request
STREAM_EXAMPLE = (
    "retry: 1000\nid: 1773565199000000\n\nid: 1773565200000000-j-job_8f3a6c1d2e4b\nevent: job.created\n"
    'data: {"event_id":"1773565200000000-j-job_8f3a6c1d2e4b","kind":"job.created"}\n\n'
)
_PLACE = "Not the id of an event, or the `next` of a page."

resource = Resource("events", "Changes in one order, as a list with a cursor and as a stream.")


class Kinds(fields.Field[frozenset[str]]):
    """Kinds of events and groups of kinds, separated by commas."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> frozenset[str]:  # noqa: ARG002
        kinds = frozenset(str(value).split(","))
        known = [*sorted(GROUPS), *(kind.value for kind in EventKind)]
        if unknown := kinds.difference(known):
            near = did_you_mean(min(unknown), known)
            groups = ", ".join(sorted(GROUPS))
            raise ValidationError(f"Must be kinds, such as job.ended, or groups ({groups}), separated by commas.{near}")
        return kinds


class EventQuery(Body):
    """Filter and start of the events."""

    kind = Kinds(
        **described("kinds or groups of kinds, separated by commas", type="string", example="execution.failed,breaker")
    )
    endpoint = fields.String(validate=validate.Length(1, 128))
    job_id = fields.String(validate=validate.Length(1, 128))
    workflow_id = fields.String(
        validate=validate.Length(1, 128),
        **described("changes of a workflow, and events of the jobs and executions of its nodes"),
    )
    labels = LabelSelector()
    after = fields.String(
        validate=validate.Length(1, 200),
        **described("the id of an event, or `next` of the previous page: only later events are returned"),
    )
    since = QueryInstant(**described("without `after`: events from this instant on"))
    limit = Count(load_default=50, validate=validate.Range(1, 200))


class EventSchema(Schema):
    """A change in the service."""

    event_id = fields.String(**answered(example="1773565200000000-a-att_4d3c2b1a0f9e"))
    kind = fields.Enum(EventKind, by_value=True, **answered(example="execution.succeeded"))
    at = Instant(**answered("start of the transaction that wrote the event; orders the events"))
    endpoint = fields.String(required=True, allow_none=True)
    job_id = fields.String(required=True, allow_none=True)
    execution_id = fields.String(required=True, allow_none=True)
    workflow_id = fields.String(
        **answered("`details` of an execution of a node have its `node`, `item` and `run`", null=True)
    )
    subject = fields.String(
        **answered("id of a worker, target of a breaker, or name of a definition or workflow", null=True)
    )
    details = fields.Dict(**answered(example={"attempt": 1, "worker_id": "wrk_1", "duration_ms": 12}))


class EventPageSchema(Schema):
    """Events, earliest first; `next` is always there, to continue later."""

    items = fields.List(fields.Nested(EventSchema), required=True)
    next = fields.String(**answered("cursor of the following events, for `after`"))

    def dump(self, obj: Any, *, many: bool | None = None) -> Any:  # noqa: ARG002
        """Return the answer unchanged: it is ready for JSON."""
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
        "description": "of a stream: the id of the last event received; same as `after`",
        "schema": {"type": "string"},
    },
    text=text_answer(EVENT_STREAM, STREAM_EXAMPLE),
)
def list_(query: dict[str, Any]) -> Any:
    """List events, earliest first; with `Accept: text/event-stream`, stream them.

    A page may have fewer events than `limit`, even none: continue with its `next`, now or later. A stream (Server-Sent
    Events) starts now, unless `after`, `Last-Event-ID` or `since` is given; events arrive about a second late. A client
    that reconnects with its last event id misses nothing and gets nothing twice. The status is 410 if the following
    events were deleted already, or if the id is ahead of the database's clock: start again with `since`.
    """
    wanted = EventFilter(
        kinds=query.get("kind", frozenset()),
        endpoint=query.get("endpoint"),
        job_id=query.get("job_id"),
        workflow_id=query.get("workflow_id"),
        labels=query.get("labels", {}),
    )
    streams = event_stream.is_wanted()
    until, now = horizon_and_now(services().database)
    after = _after(query, until, now, streams=streams)
    if streams:
        return _stream(wanted, after)
    items: list[Event] = []
    for _ in range(MAX_PAGES):
        page = events_store.read(services().database, after, until, wanted.groups, labelled=bool(wanted.labels))
        for event in page.events:
            if wanted.wants(event):
                items.append(event)
                if len(items) == query["limit"]:
                    return _page(items, event.position)
        after = page.up_to
        if page.is_end:
            break
    return _page(items, after)


def _page(items: list[Event], up_to: EventPosition) -> dict[str, Any]:
    return {"items": [event.shape() for event in items], "next": str(up_to)}


def _after(query: dict[str, Any], until: datetime, now: datetime, *, streams: bool) -> EventPosition:
    given = request.headers.get(LAST_EVENT_ID, "") if streams else ""
    text = given or query.get("after")
    if text is None:
        if "since" in query:
            return EventPosition(_since(query["since"], now))
        return EventPosition(until if streams else EPOCH)
    position = EventPosition.parse(text)
    if position is None:
        raise invalid([{"pointer": LAST_EVENT_ID if given else "after", "message": _PLACE}])
    kept = timedelta(days=services().settings.retention_days)
    if position.at < until - kept:
        raise EventsExpiredError("The events after `after` were deleted. Use the id of a later event, or `since`.")
    if position.at > now + MAX_AHEAD:
        raise EventsExpiredError(
            f"The event `after` is ahead of the database's clock ({rfc3339(now)}): the clock was set back, or the id "
            "is invalid. Start again, with `since`."
        )
    return position


def _since(since: datetime, now: datetime) -> datetime:
    if since > now + CLIENTS_AHEAD:
        raise invalid([{"pointer": "since", "message": f"Must not be in the future: it is {rfc3339(now)}."}])
    return min(since, now)


def _stream(wanted: EventFilter, after: EventPosition) -> Response:
    suspension.take_slot()
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    if suspension.is_possible() and request.method == "GET":
        asked = Subscription(wanted, after, g.api_key.key_id)
        return suspension.Streamed(_streams(), asked, beginning(after), EVENT_STREAM, headers)
    # A stream would occupy a thread here: send the existing events, and the client reconnects.
    until = horizon(services().database)
    page = events_store.read(services().database, after, until, wanted.groups, labelled=bool(wanted.labels))
    messages = [event.message() for event in page.events if wanted.wants(event)]
    parts = iter([beginning(after), *messages, beginning(page.up_to)])
    return Response(parts, content_type=EVENT_STREAM, headers=headers)


def _streams() -> Streams:
    """Return the streams of the application; the first stream starts their thread."""
    found: Streams = current_app.extensions.setdefault(EXTENSION, Streams(services().database, services().keys))
    return found
