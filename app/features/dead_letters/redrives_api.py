"""/redrives."""

from dataclasses import asdict
from typing import Any

from marshmallow import Schema, fields, validate, validates_schema

from app.catalog.endpoints import versions
from app.features.dead_letters import redrives
from app.features.dead_letters.api import DeadLetterSchema
from app.features.dead_letters.letter_list import LetterFilter
from app.features.dead_letters.redrive_walk import RedriveWalk
from app.features.dead_letters.redrives import REDRIVES
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.errors import ConflictError, EndpointNotFoundError, RedriveNotFoundError
from app.queue.bulk.walker import MOST_COUNTED
from app.queue.bulk.walker import preview as preview_of
from app.queue.jobs.job_creation import Creator
from app.web.http.conditions import actor
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Body, Instant, Name
from app.web.http.walk_schemas import all_field, check_all, rate_field, waits_field
from app.web.jobs.labels import labels_field
from app.web.openapi.resource import Resource
from app.web.services import services
from schema.states import WalkStatus

_EVERYTHING = "`wanted` is empty: all open letters are meant"

resource = Resource(
    "redrives",
    "Dead letters that run once more by a filter: the oldest first, at a rate, each once.",
    write_scope=Scope.JOBS_WRITE,
)


questions = Resource("redrive-previews", "What a redrive would see to.", write_scope=Scope.READ)


class WantedSchema(Body):
    """Which of the open letters; all that is given has to hold."""

    endpoint = fields.String(validate=validate.Length(1, 128), metadata={"example": "send-welcome-email"})
    error_type = fields.String(validate=validate.Length(1, 128), metadata={"example": "HTTP_ERROR"})
    labels = labels_field()
    failed_after = Instant()
    failed_before = Instant()


class NewRedriveSchema(Body):
    """Which letters are redriven, where to, and how fast."""

    wanted = fields.Nested(WantedSchema, required=True)
    all = all_field(_EVERYTHING)
    to_endpoint = Name(
        allow_none=True,
        metadata={"description": "a new job for this endpoint is made of each; without it its execution goes on"},
    )
    rate = rate_field(10)

    @validates_schema(skip_on_field_errors=True)
    def check_wanted(self, data: dict[str, Any], **_: Any) -> None:
        """Check that a redrive of everything says so."""
        check_all(data["all"], narrows=any(data["wanted"].values()), what=_EVERYTHING)


class RedriveOfSeveralSchema(Schema):
    """A redrive of several letters, and how far it came."""

    redrive_id = fields.String(required=True)
    status = fields.Enum(WalkStatus, required=True)
    waits_for_turn = waits_field()
    wanted = fields.Dict(required=True, metadata={"example": {"endpoint": "send-welcome-email"}})
    to_endpoint = fields.String(required=True, allow_none=True)
    rate = fields.Integer(required=True)
    actor = fields.String(required=True, allow_none=True)
    redriven = fields.Integer(required=True)
    refused = fields.Integer(
        required=True, metadata={"description": "that stay open, since they could not be redriven"}
    )
    last_refusal = fields.String(required=True, allow_none=True, metadata={"description": "why the last one was"})
    reached_at = Instant(
        required=True, allow_none=True, metadata={"description": "when the letter failed that it came to last"}
    )
    created_at = Instant(required=True)
    ended_at = Instant(required=True, allow_none=True)


class PreviewSchema(Schema):
    """What a redrive would see to."""

    count = fields.Integer(required=True, metadata={"example": 412})
    is_complete = fields.Boolean(
        required=True,
        metadata={"description": f"`false` where more than {MOST_COUNTED:,} would be looked at"},
    )
    sample = fields.List(fields.Nested(DeadLetterSchema), required=True, metadata={"description": "the first ones"})


@resource.route(
    "POST",
    "/redrives",
    body=NewRedriveSchema,
    returns=RedriveOfSeveralSchema,
    status=202,
    errors=[EndpointNotFoundError],
)
def begin(body: dict[str, Any]) -> dict[str, Any]:
    """Let all letters of a filter run once more that are open now; a scheduler does so within seconds.

    Each is redriven as `POST /dead-letters/{id}/redrive` does, exactly once, the oldest first, whatever dies meanwhile.
    A filter that matches nothing is a redrive of nothing; an empty one needs `all`.
    """
    database = services().database
    wanted, to_endpoint = asked_in(database, body)
    return asdict(redrives.begin(database, wanted, to_endpoint=to_endpoint, rate=body["rate"], actor=actor().name))


@questions.route(
    "POST", "/redrives/preview", body=NewRedriveSchema, returns=PreviewSchema, errors=[EndpointNotFoundError]
)
def preview(body: dict[str, Any]) -> dict[str, Any]:
    """Count what a redrive would see to, and show the first letters; nothing is changed."""
    return preview_in(services().creator, asked_in(services().database, body)[0])


def asked_in(database: Database, body: dict[str, Any]) -> tuple[LetterFilter, str | None]:
    """Return the filter of a body, and the endpoint that new jobs are made for; raises EndpointNotFoundError."""
    to_endpoint = body.get("to_endpoint")
    if to_endpoint is not None:
        versions.get(database, to_endpoint)
    return LetterFilter(**body["wanted"]), to_endpoint


def preview_in(creator: Creator, wanted: LetterFilter) -> dict[str, Any]:
    """Read what PreviewSchema shows."""
    return asdict(preview_of(creator.database, RedriveWalk(creator), wanted))


@resource.route("GET", "/redrives", query=PageQuery, returns=page_schema(RedriveOfSeveralSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List redrives, newest first."""
    wanted = page_request(query)
    return page_answer(REDRIVES.page(services().database, wanted), asdict, query)


@resource.route("GET", "/redrives/<redrive_id>", returns=RedriveOfSeveralSchema, errors=[RedriveNotFoundError])
def get(redrive_id: str) -> dict[str, Any]:
    """Get a redrive and its progress."""
    return asdict(REDRIVES.get(services().database, redrive_id))


_CHANGE: dict[str, Any] = {"returns": RedriveOfSeveralSchema, "errors": [RedriveNotFoundError, ConflictError]}


@resource.route("POST", "/redrives/<redrive_id>/pause", **_CHANGE)
def pause(redrive_id: str) -> dict[str, Any]:
    """Let a redrive wait where it is."""
    return asdict(REDRIVES.change(services().database, redrive_id, WalkStatus.PAUSED))


@resource.route("POST", "/redrives/<redrive_id>/resume", **_CHANGE)
def resume(redrive_id: str) -> dict[str, Any]:
    """Let a paused redrive go on where it is."""
    return asdict(REDRIVES.change(services().database, redrive_id, WalkStatus.RUNNING))


@resource.route("POST", "/redrives/<redrive_id>/stop", **_CHANGE)
def stop(redrive_id: str) -> dict[str, Any]:
    """End a redrive where it is; what it came to stays redriven."""
    return asdict(REDRIVES.change(services().database, redrive_id, WalkStatus.STOPPED))
