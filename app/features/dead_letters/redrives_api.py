"""/redrives."""

from dataclasses import asdict
from typing import Any

from marshmallow import Schema, ValidationError, fields, validate, validates_schema

from app.catalog.endpoints import versions
from app.features.dead_letters import redrives
from app.features.dead_letters.api import DeadLetterSchema, group_field, letter_ids_field
from app.features.dead_letters.letter_list import LetterFilter
from app.features.dead_letters.redrives import REDRIVES, Redrive, RedriveJob
from app.features.dead_letters.trial import MAX_TRIAL
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.described_fields import answered, described
from app.kernel.errors import EndpointNotFoundError, RedriveNotFoundError
from app.queue.bulk.bulk_job_kind import MAX_COUNTED
from app.queue.bulk.bulk_job_kind import preview as preview_of
from app.queue.jobs.job_creation import Creator
from app.web.http.bulk_job_schemas import add_operations, all_field, check_all, rate_field, waits_field
from app.web.http.conditions import actor
from app.web.http.request_fields import Body, Instant, Name
from app.web.jobs.labels import labels_field
from app.web.openapi.resource import Resource
from app.web.services import services
from schema.states import BulkJobStatus

_UNFILTERED = {"unfiltered": "`wanted` is empty", "meant": "all open dead letters"}

resource = Resource(
    "redrives",
    "Background redrives of all dead letters that match a filter: oldest first, rate-limited, each exactly once.",
    write_scope=Scope.JOBS_WRITE,
)
dry_runs = Resource("redrive-previews", "Dry runs of redrives.", write_scope=Scope.READ)


class WantedSchema(Body):
    """Filter for open dead letters; all given conditions must match."""

    endpoint = fields.String(validate=validate.Length(1, 128), **described(example="send-welcome-email"))
    error_type = fields.String(validate=validate.Length(1, 128), **described(example="HTTP_ERROR"))
    labels = labels_field()
    group = group_field()
    letter_ids = letter_ids_field()
    failed_after = Instant()
    failed_before = Instant()


class NewRedriveSchema(Body):
    """Filter, endpoint and rate of a redrive."""

    wanted = fields.Nested(WantedSchema, required=True)
    all = all_field(**_UNFILTERED)
    to_endpoint = Name(
        allow_none=True,
        **described("create a new job for this endpoint from each letter; default: retry the executions"),
    )
    rate = rate_field(10)
    trial = fields.Integer(
        strict=True,
        allow_none=True,
        validate=validate.Range(1, MAX_TRIAL),
        **described(
            "number of letters to redrive first; the rest follows once `least` of their executions have "
            "succeeded, and the redrive stops once that cannot happen any more",
            example=10,
        ),
    )
    least = fields.Integer(
        strict=True,
        allow_none=True,
        validate=validate.Range(1, MAX_TRIAL),
        **described("with `trial`, at most as many; default: all but a tenth of `trial`", example=9),
    )

    @validates_schema(skip_on_field_errors=True)
    def check_wanted(self, data: dict[str, Any], **_: Any) -> None:
        """Refuse an empty filter without `all`, and a trial that cannot succeed."""
        check_all(data["all"], narrows=any(data["wanted"].values()), **_UNFILTERED)
        trial, least = data.get("trial"), data.get("least")
        if least is not None and (trial is None or least > trial):
            raise ValidationError("Only with `trial`, and at most as many.", "least")


class RedriveOfSeveralSchema(Schema):
    """A redrive and its progress."""

    redrive_id = fields.String(required=True)
    status = fields.Enum(BulkJobStatus, required=True)
    waits_for_turn = waits_field()
    wanted = fields.Dict(**answered(example={"endpoint": "send-welcome-email"}))
    to_endpoint = fields.String(required=True, allow_none=True)
    rate = fields.Integer(required=True)
    actor = fields.String(required=True, allow_none=True)
    redriven = fields.Integer(required=True)
    refused = fields.Integer(**answered("letters that stay open because they could not be redriven"))
    last_refusal = fields.String(**answered("reason of the last refusal", null=True))
    trial = fields.Integer(required=True, allow_none=True)
    least = fields.Integer(required=True, allow_none=True)
    trial_executions = fields.List(fields.String(), **answered("executions of the trial", null=True))
    trial_result = fields.String(
        **answered("in words, once it is known", null=True, example="10 of 10 trials succeeded, none failed")
    )
    trial_passed_at = Instant(required=True, allow_none=True)
    reached_at = Instant(**answered("failure of the last letter processed", null=True))
    created_at = Instant(required=True)
    ended_at = Instant(required=True, allow_none=True)


class PreviewSchema(Schema):
    """Preview of a redrive."""

    count = fields.Integer(**answered(example=412))
    is_complete = fields.Boolean(**answered(f"`false` if more than {MAX_COUNTED:,} letters would have to be read"))
    sample = fields.List(fields.Nested(DeadLetterSchema), **answered("the first letters"))


@resource.route(
    "POST",
    "/redrives",
    body=NewRedriveSchema,
    returns=RedriveOfSeveralSchema,
    status=202,
    errors=[EndpointNotFoundError],
)
def begin(body: dict[str, Any]) -> dict[str, Any]:
    """Start a redrive of all letters of a filter that are open now; a scheduler starts it within seconds.

    Each letter is redriven as by `POST /dead-letters/{id}/redrive`, exactly once, oldest first, also when processes
    die. A filter without matches redrives nothing; an empty filter needs `all`.
    """
    return asdict(begin_in(services().database, body, actor().name))


@dry_runs.route(
    "POST", "/redrives/preview", body=NewRedriveSchema, returns=PreviewSchema, errors=[EndpointNotFoundError]
)
def preview(body: dict[str, Any]) -> dict[str, Any]:
    """Count the letters of a redrive, and show the first of them; changes nothing."""
    return preview_in(services().creator, body)


def begin_in(database: Database, body: dict[str, Any], by: str | None) -> Redrive:
    """Begin the redrive of a request; raises EndpointNotFoundError."""
    wanted, to_endpoint = _filter_of(database, body), body.get("to_endpoint")
    trial = body.get("trial")
    least = body.get("least") or (trial and trial - trial // 10)
    return redrives.begin(
        database, wanted, to_endpoint=to_endpoint, rate=body["rate"], actor=by, trial=trial, least=least
    )


def preview_in(creator: Creator, body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of PreviewSchema; raises EndpointNotFoundError."""
    return asdict(preview_of(creator.database, RedriveJob(creator), _filter_of(creator.database, body)))


def _filter_of(database: Database, body: dict[str, Any]) -> LetterFilter:
    if body.get("to_endpoint") is not None:
        versions.get(database, body["to_endpoint"])
    return LetterFilter(**body["wanted"])


add_operations(
    resource, "/redrives", REDRIVES, schema=RedriveOfSeveralSchema, shape=asdict, missing=RedriveNotFoundError
)
